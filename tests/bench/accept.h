/* The Sec-WebSocket-Accept value (RFC 6455 4.2.2) for the bench programs, made with OpenSSL alone so
 * that neither the bare loop nor the load tool leans on the library it measures. */
#ifndef BENCH_ACCEPT_H
#define BENCH_ACCEPT_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>

#define ACCEPT_SIZE 29 /* 28 characters of base64 and the closing zero */

/* key is the Sec-WebSocket-Key as text, len its length. False when the digest cannot be made. */
static bool ws_accept(const char *key, int len, char out[ACCEPT_SIZE])
{
    char text[128];
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned sum_len = 0;
    int n = snprintf(text, sizeof text, "%.*s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", len, key);
    if (n < 0 || (size_t)n >= sizeof text)
        return false;
    if (EVP_Digest(text, (size_t)n, sum, &sum_len, EVP_sha1(), NULL) != 1)
        return false;
    return EVP_EncodeBlock((unsigned char *)out, sum, (int)sum_len) == ACCEPT_SIZE - 1;
}

#endif
