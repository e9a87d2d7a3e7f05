/* The plain transport: bytes straight from and to the socket. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

#include "conn/conn.h"

static ssize_t failed(void)
{
    return errno == EAGAIN || errno == EINTR ? IOH__XPORT_AGAIN : IOH__XPORT_BROKEN;
}

static ssize_t plain_read(ioh_conn *conn, void *data, size_t len)
{
    ssize_t n = recv(conn->chan.fd, data, len, 0);
    return n < 0 ? failed() : n;
}

static ssize_t plain_write(ioh_conn *conn, const struct iovec *iov, int count, bool more)
{
    int flags = more ? MSG_NOSIGNAL | MSG_MORE : MSG_NOSIGNAL;
    ssize_t n;
    if (count == 1) { /* 0.1 to 0.2 us less than sendmsg or writev */
        n = send(conn->chan.fd, iov->iov_base, iov->iov_len, flags);
    } else {
        struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
        n = sendmsg(conn->chan.fd, &message, flags);
    }
    return n < 0 ? failed() : n;
}

/* sendfile(2) knows no MSG_NOSIGNAL. The library's own threads block SIGPIPE; a thread of the host's, that
 * drives the loop, does so for the call, and takes back what came of it. */
static ssize_t sendfile_quietly(int to, int from, off_t at, size_t len)
{
    static const struct timespec now = {0, 0};
    sigset_t pipe_only, before, pending;
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    sigpending(&pending);
    ssize_t n = sendfile(to, from, &at, len);
    int error = errno;
    if (n < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE))
        while (sigtimedwait(&pipe_only, NULL, &now) < 0 && errno == EINTR)
            ;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = error;
    return n;
}

static ssize_t plain_send_file(ioh_conn *conn, int fd, uint64_t at, size_t len)
{
    off_t offset = (off_t)at;
    ssize_t n = conn->hub->stepping ? sendfile_quietly(conn->chan.fd, fd, offset, len)
                                    : sendfile(conn->chan.fd, fd, &offset, len);
    if (n >= 0)
        return n;
    if (errno == EIO) /* of the file */
        return 0;
    /* Some file systems have no pages to give. */
    return errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP ? IOH__XPORT_UNABLE : failed();
}

static void plain_finish(ioh_conn *conn)
{
    shutdown(conn->chan.fd, SHUT_WR);
}

const struct ioh__xport_ops ioh__xport_plain = {plain_read, plain_write, plain_send_file,
                                                plain_finish};
