/* /form: what a form says, as JSON. Owns the `struct form` of a request, from on_request to on_complete.
 *
 *     {"fields":[{"name":"a","value":"1"},
 *                {"name":"f","filename":"x.png","type":"image/png","bytes":4,"sha256":"..."}]}
 *
 * GET: the pairs of the query. POST: a body of application/x-www-form-urlencoded, gathered, or of
 * multipart/form-data, as it comes: a file is hashed and not kept. Bytes from 0x80 on are written as
 * \u0080 to \u00ff, whatever they mean, so that a reader gets each back.
 */
#ifndef DEMO_FORM_H
#define DEMO_FORM_H

#include "demo.h"

#define FORM_MAX ((size_t)1 << 20) /* of a body that is gathered, and of the answer; beyond: 413 */

struct form {
    ioh_multipart *reader; /* NULL: urlencoded, */
    char *body;            /* gathered here */
    size_t body_len;

    char *json;
    size_t len, room;
    EVP_MD_CTX *md; /* of the file under way */
    uint64_t bytes;
};

static void form_free(struct form *form)
{
    if (form == NULL)
        return;
    ioh_multipart_destroy(form->reader);
    EVP_MD_CTX_free(form->md);
    free(form->body);
    free(form->json);
    free(form);
}

/* ---- JSON */

/* Room for len more bytes: 0, IOH_ENOMEM, IOH_ETOOBIG. */
static int form_room(struct form *form, size_t len)
{
    if (len > 8 * FORM_MAX - form->len)
        return IOH_ETOOBIG;
    if (form->room - form->len < len) {
        size_t room = (form->len + len) * 2;
        char *grown = realloc(form->json, room);
        if (grown == NULL)
            return IOH_ENOMEM;
        form->json = grown;
        form->room = room;
    }
    return 0;
}

static int form_write(struct form *form, const char *text)
{
    int rc = form_room(form, strlen(text) + 1);
    if (rc == 0)
        form->len += (size_t)sprintf(form->json + form->len, "%s", text);
    return rc;
}

/* The inside of a JSON string. */
static int form_escape(struct form *form, const char *data, size_t len)
{
    int rc = form_room(form, 6 * len + 1);
    if (rc)
        return rc;
    char *at = form->json + form->len;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c < 0x20 || c >= 0x7f)
            at += sprintf(at, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            at += sprintf(at, "\\%c", c);
        else
            *at++ = (char)c;
    }
    form->len = (size_t)(at - form->json);
    return 0;
}

/* ,"key":"text" */
static int form_member(struct form *form, const char *key, struct ioh_str text)
{
    int rc = form_write(form, ",\"");
    rc = rc ? rc : form_write(form, key);
    rc = rc ? rc : form_write(form, "\":\"");
    rc = rc ? rc : form_escape(form, text.ptr, text.len);
    return rc ? rc : form_write(form, "\"");
}

/* {"name":"... with a comma before all but the first. */
static int form_field(struct form *form, struct ioh_str name)
{
    int rc = form_write(form, form->len && form->json[form->len - 1] == '}' ? ",\n {" : "\n {");
    rc = rc ? rc : form_write(form, "\"name\":\"");
    rc = rc ? rc : form_escape(form, name.ptr, name.len);
    return rc ? rc : form_write(form, "\"");
}

/* ---- pairs */

static int form_pairs(struct form *form, struct ioh_str text)
{
    struct ioh_pairs it;
    struct ioh_str name, value;
    char *room = malloc(text.len + 1);
    int rc = room ? 0 : IOH_ENOMEM;
    ioh_pairs_init(&it, text);
    while (rc == 0 && ioh_pairs_next(&it, &name, &value)) {
        int64_t len = ioh_url_decode(room, text.len + 1, name, 1);
        rc = len < 0 ? (int)len : form_field(form, (struct ioh_str){room, (size_t)len});
        if (rc)
            break;
        len = ioh_url_decode(room, text.len + 1, value, 1);
        rc = len < 0 ? (int)len : form_member(form, "value", (struct ioh_str){room, (size_t)len});
        rc = rc ? rc : form_write(form, "}");
    }
    free(room);
    return rc;
}

/* ---- parts */

static int form_on_part(const struct ioh_part *part, void *user)
{
    struct form *form = user;
    int rc = form_field(form, part->name);
    form->bytes = 0;
    if (part->filename.ptr == NULL)
        return rc ? rc : form_write(form, ",\"value\":\"");
    rc = rc ? rc : form_member(form, "filename", part->filename);
    if (part->type.ptr)
        rc = rc ? rc : form_member(form, "type", part->type);
    if (form->md == NULL)
        form->md = EVP_MD_CTX_new();
    bool ready = form->md && EVP_DigestInit_ex(form->md, EVP_sha256(), NULL) == 1;
    return rc || ready ? rc : IOH_ENOMEM;
}

static int form_on_data(const struct ioh_part *part, const void *data, size_t len, void *user)
{
    struct form *form = user;
    if (part->filename.ptr == NULL)
        return form_escape(form, data, len);
    form->bytes += len;
    return EVP_DigestUpdate(form->md, data, len) == 1 ? 0 : IOH_ENOMEM;
}

static int form_on_part_end(const struct ioh_part *part, void *user)
{
    struct form *form = user;
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned hash_len = 0;
    char text[64 + 2 * EVP_MAX_MD_SIZE];
    if (part->filename.ptr == NULL)
        return form_write(form, "\"}");
    if (EVP_DigestFinal_ex(form->md, hash, &hash_len) != 1)
        return IOH_ENOMEM;
    int len = sprintf(text, ",\"bytes\":%" PRIu64 ",\"sha256\":\"", form->bytes);
    for (unsigned i = 0; i < hash_len; i++)
        len += sprintf(text + len, "%02x", hash[i]);
    memcpy(text + len, "\"}", 3);
    return form_write(form, text);
}

/* ---- the request */

/* Answers with what was read, or says why it could not be. */
static void form_answer(struct demo *demo, ioh_req *req, struct form *form, int rc)
{
    rc = rc ? rc : form_write(form, "]}\n");
    if (rc == 0) {
        check(demo, "form", ioh_respond(req, 200, json_fields, 2, form->json, form->len));
        return;
    }
    if (rc == IOH_ENOMEM) {
        answer(demo, req, demo->broken);
        return;
    }
    char text[120];
    const char *why = form->reader ? ioh_multipart_error(form->reader) : "";
    int len = snprintf(text, sizeof text, "%s\n", *why ? why : ioh_strerror(rc));
    int status = rc == IOH_ETOOBIG ? 413 : 400;
    check(demo, "form", ioh_respond(req, status, text_fields, 2, text, (size_t)len));
}

static struct form *form_new(void)
{
    struct form *form = calloc(1, sizeof *form);
    if (form && form_write(form, "{\"fields\":[") != 0) {
        form_free(form);
        form = NULL;
    }
    return form;
}

static void form_of_query(struct demo *demo, ioh_req *req)
{
    struct form *form = form_new();
    if (form == NULL)
        answer(demo, req, demo->broken);
    else
        form_answer(demo, req, form, form_pairs(form, ioh_req_query(req)));
    form_free(form);
}

/* Answers NULL when it has answered the request. */
static struct form *form_begin(struct demo *demo, ioh_req *req)
{
    static const char pairs[] = "application/x-www-form-urlencoded";
    struct ioh_multipart_handler on = IOH_MULTIPART_HANDLER_INIT;
    struct ioh_str type = ioh_req_header(req, "Content-Type");
    struct form *form = form_new();
    int rc = form ? 0 : IOH_ENOMEM;
    on.on_part = form_on_part;
    on.on_data = form_on_data;
    on.on_part_end = form_on_part_end;
    if (rc == 0 && !ioh_media_type_is(type, pairs))
        rc = ioh_multipart_create(&form->reader, type, &on, form);
    if (rc == 0)
        return form;
    form_free(form);
    if (rc == IOH_ENOMEM)
        answer(demo, req, demo->broken);
    else
        check(demo, "form",
              ioh_respond(req, 415, text_fields, 2, "no form that is known here\n", 27));
    return NULL;
}

static void form_body(struct demo *demo, ioh_req *req, struct form *form, const void *data,
                      size_t len)
{
    int rc = 0;
    if (form->reader) {
        rc = ioh_multipart_feed(form->reader, data, len);
    } else if (len > FORM_MAX - form->body_len) {
        rc = IOH_ETOOBIG;
    } else {
        char *grown = realloc(form->body, form->body_len + len);
        rc = grown ? 0 : IOH_ENOMEM;
        if (grown) {
            memcpy(grown + form->body_len, data, len);
            form->body = grown;
            form->body_len += len;
        }
    }
    if (rc)
        form_answer(demo, req, form, rc);
}

static void form_end(struct demo *demo, ioh_req *req, struct form *form)
{
    int rc = form->reader ? ioh_multipart_end(form->reader)
                          : form_pairs(form, (struct ioh_str){form->body, form->body_len});
    form_answer(demo, req, form, rc);
}

#endif
