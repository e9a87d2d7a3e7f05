/* A whole connection: bytes in, any cuts, against a server in this process whose loop is driven here. The
 * callbacks keep their order, what the server says keeps the protocol, nothing is left waiting, and however the
 * bytes were cut the callbacks see the same and the peer reads the same.
 *
 * Input: a byte of flags, four that say how long the pieces are, then the bytes of the client. Flags: 1 the
 * client shuts its sending side before it leaves, 2 it leaves without having read, 4 it reads only at the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/answers.h"
#include "support/playhost.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

enum { SHUTS = 1, DEAF = 2, READS_LATE = 4 };
enum { CUTS = 4, PREFIX = 1 + CUTS, PIECES = 100, PATIENCE = 2000, QUIET = 2 };

static char folder[] = "/tmp/fuzz-connection-XXXXXX";
static struct sockaddr_un address = {.sun_family = AF_UNIX};

/* ---- the server, one for all inputs */

static void end_server(void)
{
    int rc = ioh_server_stop(watch.server, 0);
    CHECK(rc == 0);
    while (ioh_server_step(watch.server, 0) == 1)
        ;
    ioh_server_destroy(watch.server);
    rmdir(folder);
}

static void begin_server(void)
{
    char where[128];
    struct ioh_options o = IOH_OPTIONS_INIT;
    o.exec = IOH_EXEC_INLINE;
    o.no_environment = o.keep_fd_limit = 1;
    o.max_head_bytes = 1500;
    o.max_uri_bytes = 300;
    o.max_headers = 20;
    o.max_body_bytes = BODY_MAX;
    o.ws_max_message = MESSAGE_MAX;
    o.ws_deflate = IOH_DEFLATE_SHARED;
    o.ws_deflate_min = 10;
    o.send_high = 3000;
    o.send_low = 500;
    CHECK(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    snprintf(where, sizeof where, "unix:%s", address.sun_path);
    CHECK(ioh_server_create(&watch.server, &playhost, &o, NULL) == 0);
    CHECK(ioh_server_listen(watch.server, where, NULL) == 0);
    CHECK(ioh_server_fd(watch.server) >= 0);
    CHECK(ioh_server_start(watch.server) == 0);
    atexit(end_server);
}

/* ---- the client */

struct client {
    int fd;
    unsigned flags;
    bool deaf; /* the server takes no more */
    bool eof;
    struct text got;
};

static void begin_client(struct client *c, unsigned flags)
{
    ioh_server *server = watch.server;
    text_free(&watch.story);
    text_free(&watch.heads);
    watch = (struct watch){.server = server};
    *c = (struct client){.flags = flags};
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    CHECK(c->fd >= 0 && connect(c->fd, (struct sockaddr *)&address, sizeof address) == 0);
}

static void step(void)
{
    CHECK(ioh_server_step(watch.server, 0) == 1);
}

static void receive(struct client *c)
{
    while (!c->eof) {
        char *to = text_room(&c->got, 65536);
        ssize_t n = recv(c->fd, to, 65536, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n > 0)
            c->got.len += (size_t)n;
        else
            c->eof = true; /* or a reset */
    }
}

/* Until nothing more happens by itself. */
static void settle(struct client *c)
{
    size_t before = SIZE_MAX, rounds = 0;
    for (int quiet = 0; quiet < QUIET; rounds++) {
        CHECK(rounds < PATIENCE);
        step();
        if (!(c->flags & DEAF))
            receive(c);
        size_t now = watch.story.len + c->got.len + (size_t)watch.phase;
        quiet = do_what_is_due() || now != before ? 0 : quiet + 1;
        before = now;
    }
}

static void send_piece(struct client *c, const uint8_t *data, size_t len)
{
    for (size_t rounds = 0; len > 0 && !c->deaf; rounds++) {
        ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
        if (n > 0) {
            data += n;
            len -= (size_t)n;
        } else if (errno != EAGAIN || rounds > PATIENCE) {
            c->deaf = true;
        }
        step();
        if (!(c->flags & (DEAF | READS_LATE)))
            receive(c);
        (void)do_what_is_due();
    }
}

/* cuts: NULL for all at once; what is left after PIECES goes at once, too. */
static void send_all(struct client *c, const uint8_t *data, size_t len, const uint8_t *cuts)
{
    for (size_t at = 0, i = 0; at < len && !c->deaf; i++) {
        size_t n = cuts && i < PIECES ? 1 + (size_t)cuts[i % CUTS] : len;
        n = n < len - at ? n : len - at;
        send_piece(c, data + at, n);
        at += n;
    }
}

/* What was seen until the client began to leave. */
struct seen {
    struct text story, outline;
    bool unsure, websocket;
};

static void leave_server(struct client *c)
{
    if (c->flags & SHUTS) {
        shutdown(c->fd, SHUT_WR);
        settle(c);
    }
    close(c->fd);
    for (int rounds = 0; watch.phase != OVER; rounds++) {
        CHECK(rounds < PATIENCE); /* it hangs */
        step();
        (void)do_what_is_due();
    }
}

static struct seen run(const uint8_t *data, size_t len, unsigned flags, const uint8_t *cuts)
{
    struct client c;
    struct seen seen = {.unsure = false};
    begin_client(&c, flags);
    send_all(&c, data, len, cuts);
    settle(&c);
    text_add(&seen.story, watch.story.bytes, watch.story.len);
    text_room(&c.got, 1); /* not NULL */
    struct answers a = {.at = c.got.bytes,
                        .end = c.got.bytes + c.got.len,
                        .heads = watch.heads.bytes,
                        .requests = watch.heads.len,
                        .eof = c.eof};
    read_answers(&a);
    seen.outline = a.outline;
    seen.unsure = watch.unsure || c.deaf || c.eof || (flags & DEAF);
    seen.websocket = a.websocket;
    leave_server(&c);
    text_free(&c.got);
    return seen;
}

static void check_same(const struct text *a, const struct text *b, bool beginning)
{
    size_t len = a->len < b->len ? a->len : b->len;
    if ((beginning || a->len == b->len) && (len == 0 || memcmp(a->bytes, b->bytes, len) == 0))
        return;
    fprintf(stderr, "cut:\n%.*s\n\nwhole:\n%.*s\n\n", (int)a->len, a->bytes, (int)b->len, b->bytes);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len < PREFIX || len > 65536)
        return 0;
    if (!watch.server)
        begin_server();
    struct seen cut = run(data + PREFIX, len - PREFIX, data[0], data + 1);
    struct seen whole = run(data + PREFIX, len - PREFIX, data[0], NULL);
    /* A frame that is not whole may have been judged or not: then one has seen more than the other. */
    if (!cut.unsure && !whole.unsure) {
        bool beginning = cut.websocket || whole.websocket;
        check_same(&cut.story, &whole.story, beginning);
        check_same(&cut.outline, &whole.outline, beginning);
    }
    text_free(&cut.story);
    text_free(&cut.outline);
    text_free(&whole.story);
    text_free(&whole.outline);
    return 0;
}
