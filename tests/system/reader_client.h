/* A client of belfry-reader, for system tests: a world with members u1, u2 and `empty` of workspace w, a
 * reader on it, a token of u1. Any failure ends the test. */
#ifndef BELFRY_TESTS_READER_CLIENT_H
#define BELFRY_TESTS_READER_CLIENT_H

#include <jansson.h>

#include "support/harness.h"

enum { TOKEN_MAX = 4200, CURSOR_MAX = 1100, URL_MAX = 2048 };

struct client {
    struct world w;
    struct child *reader;
    char base[64];
    char ini[WORLD_PATH_MAX];
    char authorization[TOKEN_MAX + 32];
};

void client_open(struct client *c, const char *name);
/* What client_open does after world_open: for a test that first takes a server of its own. */
void client_start(struct client *c);
void client_close(struct client *c);
/* From now on at another reader's base URL. */
void client_move(struct client *c, const char *base);
/* The reader reads its ini anew, with this text behind it, by SIGHUP; client_be uses it too from now on. */
void client_reload(struct client *c, const char *extra);
/* From now on as this user, with a token by `belfry-reader token`. */
void client_be(struct client *c, const char *user);

/* A blocking connection of its own to the reader, for what no HTTP library would send. A small receive buffer
 * (0: the system's) makes a client that does not read felt. */
int client_dial(const struct client *c, int receive_bytes);

void client_get(const struct client *c, const char *path_and_query, struct world_reply *reply);
/* One page of workspace w, which must be answered; free with json_decref. */
json_t *client_page(const struct client *c, const char *query);
/* Must be answered with this status and code, in problem+json. */
void client_refused(const struct client *c, const char *path, long status, const char *code);

size_t page_count(const json_t *page);
const char *page_id(const json_t *page, size_t index);
const char *page_cursor(const json_t *page);
bool page_has_more(const json_t *page);

/* count rows of one user with one timestamp. */
void put_rows(struct client *c, const char *user, int count, const char *created_at);

#endif
