/* The plain transport: bytes straight from and to the socket. */
#include <errno.h>
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

static ssize_t plain_write(ioh_conn *conn, const struct iovec *iov, int count)
{
    ssize_t n;
    if (count == 1) { /* 0.1 to 0.2 us less than sendmsg or writev */
        n = send(conn->chan.fd, iov->iov_base, iov->iov_len, MSG_NOSIGNAL);
    } else {
        struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = (size_t)count};
        n = sendmsg(conn->chan.fd, &message, MSG_NOSIGNAL);
    }
    return n < 0 ? failed() : n;
}

static void plain_finish(ioh_conn *conn)
{
    shutdown(conn->chan.fd, SHUT_WR);
}

const struct ioh__xport_ops ioh__xport_plain = {plain_read, plain_write, plain_finish};
