/* One random history of the model test, its database side: writers that begin, insert, commit and roll back,
 * rows deleted and edited, the bound moved by the product's own two statements. Everything is told to the
 * model, and a line of it to the trace. Which step, which id and which place in time are the seed's; the
 * clock is the database's, but only its order matters. */
#ifndef BELFRY_TESTS_READER_HISTORY_H
#define BELFRY_TESTS_READER_HISTORY_H

#include <libpq-fe.h>

#include "reader_client.h"
#include "reader_model.h"
#include "store/settle.h"

enum { HISTORY_SESSIONS = 4, HISTORY_TRACE = 1 << 16, HISTORY_ID = 40 };

/* A seed's thousands say which feed: the built-in one, or a declared one with ids of another kind. */
struct history_feed {
    const char *name, *relation; /* of the latter, with the built-in one's columns but read_at */
    const char *settled;         /* its key there */
    const char *id_type;
    bool marks; /* has unread rows, items and marks */
};
extern const struct history_feed history_feeds[3];

struct history {
    const struct history_feed *feed;
    struct client *client;
    struct model model;
    unsigned seed, random;
    bool told; /* print each step as it is made */
    PGconn *sessions[HISTORY_SESSIONS], *free_hand;
    int64_t since_us[HISTORY_SESSIONS]; /* its transaction holds the table's lock since then; 0: none */
    struct db *settler;
    struct settle_bounds held; /* computed, not moved yet; count 0: none */
    int steps;
    char trace[HISTORY_TRACE];
    size_t trace_bytes;
};

extern const char *const history_categories[4], *const history_types[2];

/* Makes the declared relations too; ini gets what declares them. */
void history_open(struct history *h, struct client *client, char *ini, size_t size);
void history_close(struct history *h);
/* A fresh workspace with its first rows. */
void history_begin(struct history *h, unsigned seed, bool told);

int history_pick(struct history *h, int count); /* 0 … count - 1 */
void history_tell(struct history *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Ends the test: the sentence, the seed, how to see it again, and the steps so far. */
void history_fail(struct history *h, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
/* twin 0: the row's; 1 and 2: of its twin of another user, in another workspace. */
void history_id(const struct history *h, int row, int twin, char id[HISTORY_ID]);
int history_row_of(const struct history *h, const char *id); /* -1: none of this history's */
int history_any_row(struct history *h);                      /* one that is there; -1: none */
void history_exec(struct history *h, PGconn *db, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Steps. */
void history_write(struct history *h); /* begin, insert, commit, roll back, or all of it at once */
void history_delete(struct history *h, const int *rows, int count);
void history_edit(struct history *h);
void history_settle(struct history *h); /* read the bound, move it, or both */
void history_finish(struct history *h); /* no transaction open, the bound above every row */

#endif
