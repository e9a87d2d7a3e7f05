/* The request heads of proto_http1_parse.c, as tables: a test each. */
#ifndef TESTS_PROTO_HTTP1_HEADS_H
#define TESTS_PROTO_HTTP1_HEADS_H

/* clang-format off */
/* ---- heads that are taken: name, bytes, the head as tell() tells it */

#define TAKEN(X)                                                                                   \
    X(a_small_get_is_taken, "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n",                               \
      "GET /ping 1.1 keep {Host=a}")                                                               \
    X(an_empty_line_before_the_request_is_skipped, "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",        \
      "GET / 1.1 keep {Host=a}")                                                                   \
    X(four_empty_lines_before_the_request_are_skipped,                                             \
      "\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET / 1.1 keep {Host=a}")              \
    X(a_method_is_any_token, "!#$%&'*+-.^_`|~09azAZ / HTTP/1.1\r\nHost: a\r\n\r\n",                \
      "!#$%&'*+-.^_`|~09azAZ / 1.1 keep {Host=a}")                                                 \
    X(a_method_is_case_sensitive, "head / HTTP/1.1\r\nHost: a\r\n\r\n",                            \
      "head / 1.1 keep {Host=a}")                                                                  \
    X(head_is_marked, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "HEAD / 1.1 head keep {Host=a}")       \
    X(path_and_query_are_split_at_the_first_question_mark,                                         \
      "GET /a/b?c=d?e HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a/b?c=d?e 1.1 keep {Host=a}")            \
    X(an_empty_query_is_there, "GET /a? HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a? 1.1 keep {Host=a}") \
    X(odd_but_visible_bytes_in_a_target_are_left_to_the_host,                                      \
      "GET /\"<>^`{|}[]?\"<>^`{|}[] HTTP/1.1\r\nHost: a\r\n\r\n",                                  \
      "GET /\"<>^`{|}[]?\"<>^`{|}[] 1.1 keep {Host=a}")                                            \
    X(percent_escapes_are_left_to_the_host, "GET /%00%0d%zz% HTTP/1.1\r\nHost: a\r\n\r\n",         \
      "GET /%00%0d%zz% 1.1 keep {Host=a}")                                                         \
    X(two_slashes_are_a_path, "GET //x//y HTTP/1.1\r\nHost: a\r\n\r\n",                            \
      "GET //x//y 1.1 keep {Host=a}")                                                              \
    X(the_absolute_form_is_split, "GET http://a/b?c HTTP/1.1\r\nHost: a\r\n\r\n",                  \
      "GET /b?c 1.1 absolute keep {Host=a}")                                                       \
    X(the_absolute_form_may_be_https_in_any_case,                                                  \
      "GET HttpS://a:443/ HTTP/1.1\r\nHost: a:443\r\n\r\n",                                        \
      "GET / 1.1 absolute keep {Host=a:443}")                                                      \
    X(the_absolute_form_may_lack_a_path, "GET http://a HTTP/1.1\r\nHost: a\r\n\r\n",               \
      "GET  1.1 absolute keep {Host=a}")                                                           \
    X(the_absolute_form_may_have_a_query_without_path,                                             \
      "GET http://a?b=/c HTTP/1.1\r\nHost: a\r\n\r\n", "GET ?b=/c 1.1 absolute keep {Host=a}")     \
    X(host_and_target_may_differ_in_case, "GET http://EXAMPLE.com/ HTTP/1.1\r\nHost: example.COM\r\n\r\n", \
      "GET / 1.1 absolute keep {Host=example.COM}")                                                \
    X(the_absolute_form_on_http_1_0_needs_no_host, "GET http://a/ HTTP/1.0\r\n\r\n",               \
      "GET / 1.0 absolute close {}")                                                               \
    X(the_asterisk_is_taken_for_options, "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",                  \
      "OPTIONS * 1.1 asterisk keep {Host=a}")                                                      \
    X(options_may_have_a_path, "OPTIONS /* HTTP/1.1\r\nHost: a\r\n\r\n",                           \
      "OPTIONS /* 1.1 keep {Host=a}")                                                              \
    X(a_higher_minor_version_counts_as_1_1, "GET / HTTP/1.9\r\nHost: a\r\n\r\n",                   \
      "GET / 1.1 keep {Host=a}")                                                                   \
    X(http_1_0_needs_no_host_and_closes, "GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close {}")           \
    X(http_1_0_may_have_a_host, "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "GET / 1.0 close {Host=a}")   \
    X(white_space_around_a_value_is_cut_off,                                                       \
      "GET / HTTP/1.1\r\nHost: \t a \t\r\nX:\t b\tc  d \r\n\r\n",                                  \
      "GET / 1.1 keep {Host=a; X=b\tc  d}")                                                        \
    X(a_value_may_be_empty, "GET / HTTP/1.1\r\nHost:a\r\nX:\r\nY: \t \r\n\r\n",                    \
      "GET / 1.1 keep {Host=a; X=; Y=}")                                                           \
    X(a_value_may_have_bytes_above_ascii, "GET / HTTP/1.1\r\nHost: a\r\nX: D\xc3\xbc\x80\xff\r\n\r\n", \
      "GET / 1.1 keep {Host=a; X=D\xc3\xbc\x80\xff}")                                              \
    X(a_field_name_is_any_token, "GET / HTTP/1.1\r\nHost: a\r\n!#$%&'*+-.^_`|~0: b\r\n\r\n",       \
      "GET / 1.1 keep {Host=a; !#$%&'*+-.^_`|~0=b}")                                               \
    X(names_are_known_in_any_case,                                                                 \
      "POST / HTTP/1.1\r\nhOST: a\r\ncONTENT-lENGTH: 3\r\nCONNECTION: CLOSE\r\n\r\n",              \
      "POST / 1.1 close length=3 {hOST=a; cONTENT-lENGTH=3; CONNECTION=CLOSE}")                    \
    X(names_with_an_underscore_mean_nothing,                                                       \
      "POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 3\r\nTransfer_Encoding: chunked\r\n\r\n",     \
      "POST / 1.1 keep {Host=a; Content_Length=3; Transfer_Encoding=chunked}")                     \
    X(host_may_have_a_port, "GET / HTTP/1.1\r\nHost: example.com:8080\r\n\r\n",                    \
      "GET / 1.1 keep {Host=example.com:8080}")                                                    \
    X(host_may_be_ipv6, "GET / HTTP/1.1\r\nHost: [2001:db8::1]:80\r\n\r\n",                        \
      "GET / 1.1 keep {Host=[2001:db8::1]:80}")                                                    \
    X(content_length_may_have_leading_zeros,                                                       \
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 000000000000000000000000042\r\n\r\n",         \
      "POST / 1.1 keep length=42 {Host=a; Content-Length=000000000000000000000000042}")            \
    X(content_length_zero_is_a_length, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",  \
      "POST / 1.1 keep length=0 {Host=a; Content-Length=0}")                                       \
    X(the_largest_content_length_is_taken,                                                         \
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n",                 \
      "POST / 1.1 keep length=9223372036854775807 {Host=a; Content-Length=9223372036854775807}")   \
    X(chunked_is_taken_in_any_case,                                                                \
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKed\r\n\r\n",                          \
      "POST / 1.1 keep chunked {Host=a; Transfer-Encoding=CHUNKed}")                               \
    X(connection_close_wins_over_keep_alive,                                                       \
      "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n",                                   \
      "GET / 1.0 close {Connection=keep-alive, close}")                                            \
    X(connection_tokens_are_found_in_all_fields,                                                   \
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, y\r\nConnection: ,,z , cLOSE ,\r\n\r\n",        \
      "GET / 1.1 close {Host=a; Connection=x, y; Connection=,,z , cLOSE ,}")                       \
    X(a_connection_token_is_compared_whole,                                                        \
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, clos e, xclose\r\n\r\n",                   \
      "GET / 1.1 keep {Host=a; Connection=closed, clos e, xclose}")                                \
    X(keep_alive_is_honoured_on_http_1_0, "GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",      \
      "GET / 1.0 keep {Connection=Keep-Alive}")                                                    \
    X(an_upgrade_to_websocket_is_seen,                                                             \
      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n\r\n",            \
      "GET / 1.1 keep websocket {Host=a; Upgrade=WebSocket; Connection=Upgrade}")                  \
    X(an_upgrade_is_found_in_lists_over_several_fields,                                            \
      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nUpgrade: x/1, websocket\r\n"                   \
      "Connection: keep-alive\r\nConnection: x, upgrade\r\n\r\n",                                  \
      "GET / 1.1 keep websocket {Host=a; Upgrade=h2c; Upgrade=x/1, websocket; "                    \
      "Connection=keep-alive; Connection=x, upgrade}")                                             \
    X(an_upgrade_without_connection_is_none,                                                       \
      "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: keep-alive\r\n\r\n",         \
      "GET / 1.1 keep {Host=a; Upgrade=websocket; Connection=keep-alive}")                         \
    X(connection_upgrade_alone_is_no_upgrade,                                                      \
      "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n\r\n",                                  \
      "GET / 1.1 keep {Host=a; Connection=upgrade}")                                               \
    X(an_upgrade_on_http_1_0_is_ignored,                                                           \
      "GET / HTTP/1.0\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",                       \
      "GET / 1.0 close {Upgrade=websocket; Connection=upgrade}")                                   \
    X(expect_100_continue_is_seen,                                                                 \
      "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n",            \
      "PUT / 1.1 keep expect length=1 {Host=a; Expect=100-Continue; Content-Length=1}")            \
    X(expect_on_http_1_0_is_ignored, "PUT / HTTP/1.0\r\nExpect: what\r\n\r\n",                     \
      "PUT / 1.0 close {Expect=what}")

/* ---- heads that are refused: name, status, the bytes before the fault, the rest, the reason */

#define R "GET / HTTP/1.1\r\n"
#define H R "Host: a\r\n"
#define E "\r\n\r\n"

#define REFUSED_LINE(X)                                                                            \
    X(bare_lf_behind_the_request_line_is_refused, 400, "GET / HTTP/1.1", "\nHost: a" E,            \
      "bare LF in the request line")                                                               \
    X(bare_cr_behind_the_request_line_is_refused, 400, "GET / HTTP/1.1", "\rHost: a" E,            \
      "bare CR in the request line")                                                               \
    X(a_space_behind_the_version_is_refused, 400, "GET / HTTP/1.1", " \r\nHost: a" E,              \
      "bytes behind the version")                                                                  \
    X(a_second_minor_digit_is_refused, 400, "GET / HTTP/1.1", "0\r\nHost: a" E,                    \
      "bytes behind the version")                                                                  \
    X(two_spaces_before_the_target_are_refused, 400, "GET ", " / HTTP/1.1\r\nHost: a" E,           \
      "more than one space before the target")                                                     \
    X(two_spaces_before_the_version_are_refused, 400, "GET / ", " HTTP/1.1\r\nHost: a" E,          \
      "not a version")                                                                             \
    X(a_tab_behind_the_method_is_refused, 400, "GET", "\t/ HTTP/1.1\r\nHost: a" E,                 \
      "the method is not a token")                                                                 \
    X(a_tab_behind_the_target_is_refused, 400, "GET /", "\tHTTP/1.1\r\nHost: a" E,                 \
      "a byte that a target may not have")                                                         \
    X(a_space_before_the_method_is_refused, 400, "", " GET / HTTP/1.1\r\nHost: a" E,               \
      "the method is not a token")                                                                 \
    X(a_line_of_spaces_is_refused, 400, "", "   " E, "the method is not a token")                  \
    X(a_method_with_a_slash_is_refused, 400, "G", "/T / HTTP/1.1\r\nHost: a" E,                    \
      "the method is not a token")                                                                 \
    X(a_method_with_a_nul_byte_is_refused, 400, "GET", "\0 / HTTP/1.1\r\nHost: a" E,               \
      "the method is not a token")                                                                 \
    X(a_method_with_a_byte_above_ascii_is_refused, 400, "G", "\xc3\x84T / HTTP/1.1\r\nHost: a" E,  \
      "the method is not a token")                                                                 \
    X(a_method_alone_is_refused, 400, "GET", E, "the method is not a token")                       \
    X(a_missing_target_is_refused, 400, "GET HTTP/1.1", "\r\nHost: a" E,                           \
      "no version in the request line")                                                            \
    X(a_request_of_http_0_9_is_refused, 400, "GET /", E, "no version in the request line")         \
    X(a_space_and_no_version_is_refused, 400, "GET / ", E, "not a version")                        \
    X(a_space_in_a_target_is_refused, 400, "GET /a ", "b HTTP/1.1\r\nHost: a" E, "not a version")  \
    X(a_nul_byte_in_a_target_is_refused, 400, "GET /a", "\0b HTTP/1.1\r\nHost: a" E,               \
      "a byte that a target may not have")                                                         \
    X(a_delete_byte_in_a_target_is_refused, 400, "GET /a", "\x7f HTTP/1.1\r\nHost: a" E,           \
      "a byte that a target may not have")                                                         \
    X(a_byte_above_ascii_in_a_target_is_refused, 400, "GET /caf", "\xc3\xa9 HTTP/1.1\r\nHost: a" E, \
      "a byte that a target may not have")                                                         \
    X(a_byte_above_ascii_in_a_query_is_refused, 400, "GET /?q=", "\xff HTTP/1.1\r\nHost: a" E,     \
      "a byte that a target may not have")                                                         \
    X(a_backslash_in_a_target_is_refused, 400, "GET /a", "\\b HTTP/1.1\r\nHost: a" E,              \
      "a byte that a target may not have")                                                         \
    X(a_fragment_is_refused, 400, "GET /a", "#b HTTP/1.1\r\nHost: a" E, "a fragment in the target") \
    X(a_fragment_behind_a_query_is_refused, 400, "GET /a?b", "#c HTTP/1.1\r\nHost: a" E,           \
      "a fragment in the target")                                                                  \
    X(a_target_without_slash_is_refused, 400, "GET ", "a HTTP/1.1\r\nHost: a" E,                   \
      "not a form of target")                                                                      \
    X(an_authority_as_target_is_refused, 400, "GET ", "a:80 HTTP/1.1\r\nHost: a" E,                \
      "not a form of target")                                                                      \
    X(a_query_alone_is_refused, 400, "GET ", "?a HTTP/1.1\r\nHost: a" E, "not a form of target")   \
    X(another_scheme_is_refused, 400, "GET ", "ftp://a/ HTTP/1.1\r\nHost: a" E,                    \
      "not a form of target")                                                                      \
    X(a_scheme_alone_is_refused, 400, "GET ", "http:// HTTP/1.1\r\nHost: a" E,                     \
      "not a form of target")                                                                      \
    X(an_absolute_form_without_host_is_refused, 400, "GET http://", "/a HTTP/1.1\r\nHost: a" E,    \
      "bad host in the target")                                                                    \
    X(an_absolute_form_with_a_bad_port_is_refused, 400, "GET http://", "a:x/ HTTP/1.1\r\nHost: a" E, \
      "bad host in the target")                                                                    \
    X(userinfo_in_the_target_is_refused, 400, "GET http://", "u:p@a/ HTTP/1.1\r\nHost: a" E,       \
      "userinfo in the target")                                                                    \
    X(another_host_than_that_of_the_target_is_refused, 400, "GET http://a/ HTTP/1.1\r\nHost: ", "b" E, \
      "Host is not the host of the target")                                                        \
    X(another_port_than_that_of_the_target_is_refused, 400,                                        \
      "GET http://a:1/ HTTP/1.1\r\nHost: ", "a:2" E, "Host is not the host of the target")         \
    X(a_host_that_begins_like_that_of_the_target_is_refused, 400,                                  \
      "GET http://a/ HTTP/1.0\r\nHost: ", "a.b" E, "Host is not the host of the target")           \
    X(the_asterisk_with_get_is_refused, 400, "GET ", "* HTTP/1.1\r\nHost: a" E,                    \
      "the asterisk is for OPTIONS")                                                               \
    X(an_asterisk_with_more_is_refused, 400, "OPTIONS ", "*a HTTP/1.1\r\nHost: a" E,               \
      "not a form of target")                                                                      \
    X(connect_is_not_implemented, 501, "", "CONNECT a:443 HTTP/1.1\r\nHost: a:443" E,              \
      "CONNECT: no tunnels here")                                                                  \
    X(a_version_in_lower_case_is_refused, 400, "GET / ", "http/1.1\r\nHost: a" E, "not a version") \
    X(a_version_without_minor_is_refused, 400, "GET / HTTP/1", "\r\nHost: a" E, "not a version")   \
    X(a_version_with_a_leading_zero_is_refused, 400, "GET / HTTP/0", "1.1\r\nHost: a" E,           \
      "not a version")                                                                             \
    X(a_version_with_a_space_is_refused, 400, "GET / HTTP/", " 1.1\r\nHost: a" E, "not a version") \
    X(a_version_with_a_comma_is_refused, 400, "GET / HTTP/1", ",1\r\nHost: a" E, "not a version")  \
    X(a_version_that_would_wrap_is_refused, 400, "GET / HTTP/4", "294967297.1\r\nHost: a" E,       \
      "not a version")                                                                             \
    X(a_version_in_words_is_refused, 400, "GET / HTTP/", "x.y\r\nHost: a" E, "not a version")      \
    X(another_protocol_is_refused, 400, "GET / ", "RTSP/1.0\r\nHost: a" E, "not a version")        \
    X(version_2_is_not_supported, 505, "GET / HTTP/", "2.0\r\nHost: a" E, "not version 1")         \
    X(version_0_9_is_not_supported, 505, "GET / HTTP/", "0.9\r\nHost: a" E, "not version 1")       \
    X(the_opening_of_http_2_is_not_supported, 505, "PRI * HTTP/", "2.0" E "SM" E, "not version 1") \
    X(five_empty_lines_before_the_request_are_refused, 400, E E, E "GET / HTTP/1.1\r\nHost: a" E,  \
      "too many empty lines")                                                                      \
    X(bare_lf_before_the_request_is_refused, 400, "", "\nGET / HTTP/1.1\r\nHost: a" E,             \
      "bare CR or LF before the request")                                                          \
    X(bare_cr_before_the_request_is_refused, 400, "\r\n", "\rGET / HTTP/1.1\r\nHost: a" E,         \
      "bare CR or LF before the request")

#define REFUSED_FIELD(X)                                                                           \
    X(bare_lf_behind_a_field_is_refused, 400, R "Host: a", "\nX: b" E, "bare LF in a field line")  \
    X(bare_cr_in_a_value_is_refused, 400, H "X: a", "\rY: b" E, "bare CR in a field line")         \
    X(two_crs_at_the_end_of_a_field_are_refused, 400, H "X: a", "\r\r\n\r\n", "bare CR in a field line") \
    X(bare_lf_instead_of_the_empty_line_is_refused, 400, H, "\n",                                  \
      "bare LF instead of the empty line")                                                         \
    X(bare_cr_instead_of_the_empty_line_is_refused, 400, H, "\rZGET / HTTP/1.1" E,                 \
      "bare CR instead of the empty line")                                                         \
    X(white_space_before_the_first_field_is_refused, 400, R, " Host: a" E,                         \
      "white space before the first field")                                                        \
    X(a_line_of_white_space_before_the_fields_is_refused, 400, R, " \r\nHost: a" E,                \
      "white space before the first field")                                                        \
    X(a_line_folded_with_a_space_is_refused, 400, H "X: b\r\n", " c" E, "a folded field line")     \
    X(a_line_folded_with_a_tab_is_refused, 400, H "X: b\r\n", "\tc: d" E, "a folded field line")   \
    X(a_folded_transfer_encoding_is_refused, 400, H "Transfer-Encoding:\r\n", " chunked" E,        \
      "a folded field line")                                                                       \
    X(a_space_before_the_colon_is_refused, 400, H "X", " : b" E,                                   \
      "white space in or behind a field name")                                                     \
    X(a_tab_before_the_colon_is_refused, 400, H "Content-Length", "\t: 3" E,                       \
      "white space in or behind a field name")                                                     \
    X(a_space_in_a_field_name_is_refused, 400, H "Content", " Length: 3" E,                        \
      "white space in or behind a field name")                                                     \
    X(a_field_with_a_space_instead_of_the_colon_is_refused, 400, H "Content-Length", " 10" E,      \
      "white space in or behind a field name")                                                     \
    X(an_empty_field_name_is_refused, 400, R, ": x\r\nHost: a" E, "an empty field name")           \
    X(a_lone_colon_does_not_end_the_head, 400, H, ":\r\nX: y" E, "an empty field name")            \
    X(a_field_line_without_colon_is_refused, 400, H "Name", "\r\nX: y" E,                          \
      "a field line without a colon")                                                              \
    X(a_bracket_in_a_field_name_is_refused, 400, H "Bad", "[Name: b" E,                            \
      "a byte that a field name may not have")                                                     \
    X(a_nul_byte_in_a_field_name_is_refused, 400, H "Bad", "\0Name: b" E,                          \
      "a byte that a field name may not have")                                                     \
    X(a_byte_above_ascii_in_a_field_name_is_refused, 400, H, "\xefoo: b" E,                        \
      "a byte that a field name may not have")                                                     \
    X(a_nul_byte_in_a_value_is_refused, 400, H "X: goo", "\0d" E, "a control byte in a field value") \
    X(a_delete_byte_in_a_value_is_refused, 400, H "X: a", "\x7f" E, "a control byte in a field value") \
    X(a_form_feed_in_a_value_is_refused, 400, H "X: ", "\x0c" E, "a control byte in a field value") \
    X(a_form_feed_in_a_long_value_is_refused, 400, H "X: 0123456789", "\x0c" "0123456789" E,       \
      "a control byte in a field value")                                                           \
    X(a_missing_host_is_refused, 400, R, "\r\n", "no Host")                                        \
    X(a_missing_host_is_refused_among_other_fields, 400, R "Hosts: a\r\nHos: a\r\n", "\r\n", "no Host") \
    X(a_second_host_is_refused, 400, H "Host: ", "b" E, "more than one Host")                      \
    X(a_second_equal_host_is_refused, 400, H "hOsT: ", "a" E, "more than one Host")                \
    X(a_second_host_is_refused_on_http_1_0, 400, "GET / HTTP/1.0\r\nHost: a\r\nHost: ", "a" E,     \
      "more than one Host")                                                                        \
    X(an_empty_host_is_refused, 400, R "Host:", E, "Host is not a host")                           \
    X(an_empty_host_with_an_absolute_form_is_refused, 400, "GET http://a/ HTTP/1.1\r\nHost:", E,   \
      "Host is not a host")                                                                        \
    X(a_host_with_userinfo_is_refused, 400, R "Host: ", "u@a" E, "Host is not a host")             \
    X(a_host_with_a_path_is_refused, 400, R "Host: ", "a/b" E, "Host is not a host")               \
    X(a_list_of_hosts_is_refused, 400, R "Host: ", "a, b" E, "Host is not a host")                 \
    X(a_bad_host_on_http_1_0_is_refused, 400, "GET / HTTP/1.0\r\nHost: ", "a b" E, "Host is not a host")

#define REFUSED_FRAMING(X)                                                                         \
    X(an_empty_content_length_is_refused, 400, H "Content-Length:", E,                             \
      "Content-Length without a number")                                                           \
    X(a_content_length_with_a_plus_is_refused, 400, H "Content-Length: ", "+5" E,                  \
      "Content-Length is not a number")                                                            \
    X(a_negative_content_length_is_refused, 400, H "Content-Length: ", "-0" E,                     \
      "Content-Length is not a number")                                                            \
    X(a_content_length_in_hex_is_refused, 400, H "Content-Length: 0", "x5" E,                      \
      "Content-Length is not a number")                                                            \
    X(a_content_length_with_junk_behind_is_refused, 400, H "Content-Length: 1", "Z" E,             \
      "Content-Length is not a number")                                                            \
    X(a_content_length_with_an_underscore_is_refused, 400, H "Content-Length: 1", "_0" E,          \
      "Content-Length is not a number")                                                            \
    X(a_content_length_with_a_space_is_refused, 400, H "Content-Length: 4", " 2" E,                \
      "Content-Length is not a number")                                                            \
    X(a_list_of_equal_lengths_is_refused, 400, H "Content-Length: 5", ", 5" E,                     \
      "Content-Length is not a number")                                                            \
    X(a_content_length_of_two_to_the_63_is_refused, 400, H "Content-Length: 922337203685477580",   \
      "8" E, "Content-Length is too large")                                                        \
    X(a_content_length_that_wraps_64_bits_is_refused, 400, H "Content-Length: 1844674407370955161", \
      "7" E, "Content-Length is too large")                                                        \
    X(a_second_content_length_is_refused, 400, H "Content-Length: 1\r\nContent-Length: ", "2" E,   \
      "more than one Content-Length")                                                              \
    X(a_second_equal_content_length_is_refused, 400,                                               \
      H "Content-Length: 5\r\nX: y\r\ncontent-length: ", "5" E, "more than one Content-Length")    \
    X(chunked_behind_a_length_is_refused, 400, H "Content-Length: 5\r\nTransfer-Encoding: ",       \
      "chunked" E, "Content-Length with Transfer-Encoding")                                        \
    X(a_length_behind_chunked_is_refused, 400, H "Transfer-Encoding: chunked\r\nContent-Length: ", \
      "5" E, "Content-Length with Transfer-Encoding")                                              \
    X(an_unknown_coding_with_a_length_is_refused, 400,                                             \
      H "Transfer-Encoding: identity\r\nContent-Length: ", "5" E,                                  \
      "Content-Length with Transfer-Encoding")                                                     \
    X(an_empty_coding_with_a_length_is_refused, 400, H "Transfer-Encoding:\r\nContent-Length: ",   \
      "5" E, "Content-Length with Transfer-Encoding")                                              \
    X(chunked_on_http_1_0_is_refused, 400, "POST / HTTP/1.0\r\nTransfer-Encoding: ", "chunked" E,  \
      "Transfer-Encoding with HTTP/1.0")                                                           \
    X(an_empty_transfer_encoding_is_refused, 400, H "Transfer-Encoding:", E, "a bad transfer coding") \
    X(chunked_twice_is_refused, 400, H "Transfer-Encoding: chunked, ", "chunked" E,                \
      "a transfer coding behind chunked")                                                          \
    X(chunked_in_two_fields_is_refused, 400,                                                       \
      H "Transfer-Encoding: chunked\r\nX: y\r\nTransfer-Encoding: ", "chunked" E,                  \
      "a transfer coding behind chunked")                                                          \
    X(chunked_before_another_coding_is_refused, 400, H "Transfer-Encoding: chunked, ", "gzip" E,   \
      "a transfer coding behind chunked")                                                          \
    X(chunked_before_a_comma_is_refused, 400, H "Transfer-Encoding: chunked,", E,                  \
      "a transfer coding behind chunked")                                                          \
    X(chunked_behind_a_comma_is_refused, 400, H "Transfer-Encoding: ", ",chunked" E,               \
      "a bad transfer coding")                                                                     \
    X(chunked_with_a_parameter_is_refused, 400, H "Transfer-Encoding: ", "chunked;a=b" E,          \
      "a bad transfer coding")                                                                     \
    X(chunked_in_quotes_is_refused, 400, H "Transfer-Encoding: ", "\"chunked\"" E,                 \
      "a bad transfer coding")                                                                     \
    X(a_vertical_tab_before_chunked_is_refused, 400, H "Transfer-Encoding: ", "\x0b" "chunked" E,  \
      "a control byte in a field value")                                                           \
    X(an_unknown_coding_is_not_implemented, 501, H "Transfer-Encoding: ", "gzip" E,                \
      "an unknown transfer coding")                                                                \
    X(a_coding_that_begins_like_chunked_is_not_implemented, 501, H "Transfer-Encoding: ",          \
      "chunkedchunked" E, "an unknown transfer coding")                                            \
    X(an_unknown_coding_before_chunked_is_not_implemented, 501, H "Transfer-Encoding: ",           \
      "gzip, chunked" E, "an unknown transfer coding")                                             \
    X(an_unknown_coding_in_a_field_before_chunked_is_not_implemented, 501,                         \
      H "Transfer-Encoding: ", "gzip\r\nTransfer-Encoding: chunked" E, "an unknown transfer coding") \
    X(another_expectation_fails, 417, H "Expect: ", "200-ok" E, "an unknown expectation")          \
    X(an_empty_expectation_fails, 417, H "Expect:", E, "an unknown expectation")                   \
    X(an_expectation_with_more_behind_fails, 417, H "Expect: ", "100-continue, x" E,               \
      "an unknown expectation")                                                                    \
    X(a_second_expectation_fails, 417, H "Expect: 100-continue\r\nExpect: ", "100-continue" E,     \
      "an unknown expectation")                                                                    \
    X(a_fault_of_the_framing_goes_before_an_expectation, 400, H "Expect: x\r\nTransfer-Encoding:", E, \
      "a bad transfer coding")
/* clang-format on */

#endif
