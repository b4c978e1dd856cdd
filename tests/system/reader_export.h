/* Orders, waits for and reads exports of workspace w, for system tests. Any failure ends the test. */
#ifndef BELFRY_TESTS_READER_EXPORT_H
#define BELFRY_TESTS_READER_EXPORT_H

#include "reader_client.h"

#define EXPORTS "/v1/workspaces/w/exports"
#define ORDER   "/v1/workspaces/w/feeds/notifications/exports"

enum { EXPORT_ID = 40 };

/* key NULL: none. Free with world_reply_done. */
void export_call(const struct client *c, const char *method, const char *path, const char *key,
                 const char *body, struct world_reply *reply);
/* Must be answered with this status, and for a refusal code; the JSON, NULL of 204. json_decref it. */
json_t *export_expect(const struct client *c, const char *method, const char *path, const char *body,
                      long status, const char *code);
/* Orders one, without waiting. */
void export_order(const struct client *c, const char *body, char id[EXPORT_ID]);
/* Waits until it is queued and running no more; its state must be this. Its JSON. */
json_t *export_await(const struct client *c, const char *id, const char *state);
/* Orders one and waits until it is ready; its rows. */
int64_t export_make(const struct client *c, const char *body, char id[EXPORT_ID]);
/* The whole of /rows, query such as "?after=3" or ""; must be 200. Free with world_reply_done. */
void export_rows(const struct client *c, const char *id, const char *query, struct world_reply *reply);
/* Rows of u1 with a `data` of about `bytes`. */
void export_put(struct client *c, int count, int bytes);

/* A download on a connection of its own, taken by hand. */
struct download {
    int fd;
    char *raw; /* what came, head and chunks */
    size_t raw_bytes;
    char *body; /* the chunks' content, once it ended; NUL-terminated */
    size_t bytes;
    bool whole; /* with a final chunk */
};
void download_open(struct download *d, const struct client *c, const char *id, const char *query);
/* Takes until it has this much of raw, or the other side ended it: then true. */
bool download_take(struct download *d, size_t raw_bytes);
/* Takes the rest and decodes the chunks. */
void download_finish(struct download *d);
void download_close(struct download *d);

const char *text_of(const json_t *object, const char *name);

#endif
