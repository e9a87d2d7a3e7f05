/* `peer_lws PORT`: a WebSocket echo by libwebsockets, one thread. Prints `listening PORT` and runs until it is
 * killed. Each whole message goes back in one write. */
#include <libwebsockets.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct message {
    struct message *next;
    size_t len, room;
    int binary;
    unsigned char bytes[]; /* LWS_PRE unused ones first */
};

struct session {
    struct message *first, **end; /* whole ones, to be written */
    struct message *growing;
};

static int take(struct session *s, const void *data, size_t len)
{
    struct message *m = s->growing;
    if (!m || m->len + len > m->room) {
        size_t have = m ? m->len : 0, room = 2 * (have + len);
        m = realloc(m, sizeof *m + LWS_PRE + room);
        if (!m)
            return -1;
        m->len = have;
        m->room = room;
        s->growing = m;
    }
    memcpy(m->bytes + LWS_PRE + m->len, data, len);
    m->len += len;
    return 0;
}

static void whole(struct session *s, struct lws *wsi)
{
    struct message *m = s->growing;
    m->binary = lws_frame_is_binary(wsi);
    m->next = NULL;
    *(s->first ? s->end : &s->first) = m;
    s->end = &m->next;
    s->growing = NULL;
}

static int echo(struct lws *wsi, enum lws_callback_reasons reason, void *user, void *data,
                size_t len)
{
    struct session *s = user;
    struct message *m;
    switch (reason) {
    case LWS_CALLBACK_RECEIVE:
        if (take(s, data, len))
            return -1;
        if (!lws_is_final_fragment(wsi) || lws_remaining_packet_payload(wsi))
            return 0;
        whole(s, wsi);
        lws_callback_on_writable(wsi);
        return 0;
    case LWS_CALLBACK_SERVER_WRITEABLE:
        m = s->first;
        if (!m)
            return 0;
        if (lws_write(wsi, m->bytes + LWS_PRE, m->len,
                      m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT) < (int)m->len)
            return -1;
        s->first = m->next;
        free(m);
        if (s->first)
            lws_callback_on_writable(wsi);
        return 0;
    case LWS_CALLBACK_CLOSED:
        free(s->growing);
        while ((m = s->first)) {
            s->first = m->next;
            free(m);
        }
        return 0;
    default:
        return 0;
    }
}

int main(int argc, char **argv)
{
    static const struct lws_protocols protocols[] = {
        {"http", echo, sizeof(struct session), 16384, 0, NULL, 0}, {NULL, NULL, 0, 0, 0, NULL, 0}};
    struct lws_context_creation_info info;
    signal(SIGPIPE, SIG_IGN);
    memset(&info, 0, sizeof info);
    info.port = argc == 2 ? atoi(argv[1]) : 0;
    info.iface = "127.0.0.1";
    info.protocols = protocols;
    info.pt_serv_buf_size = 16384;
    info.options = LWS_SERVER_OPTION_DISABLE_IPV6;
    lws_set_log_level(LLL_ERR, NULL);
    struct lws_context *context = lws_create_context(&info);
    if (!context)
        return 1;
    printf("listening %d\n", lws_get_vhost_listen_port(lws_get_vhost_by_name(context, "default")));
    fflush(stdout);
    while (lws_service(context, 0) >= 0)
        continue;
    lws_context_destroy(context);
    return 0;
}
