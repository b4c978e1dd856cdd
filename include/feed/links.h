/* The reader's few database connections: pipelined, reconnecting by themselves. One thread. */
#ifndef BELFRY_FEED_LINKS_H
#define BELFRY_FEED_LINKS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "io/db.h"

enum {
    LINKS_COUNT = 4,
    LINKS_DEPTH = 16, /* statements in flight on one connection; more wait in the reader */
    LINKS_RETRY_FIRST_MS = 100,
    LINKS_RETRY_CAP_MS = 2000,
    LINKS_TICK_MS = 50 /* a connection is looked at so often although its socket says nothing: deadlines */
};

struct link {
    struct db *db;
    enum db_state seen; /* as of the last links_pump */
    int64_t retry_at_ms, pumped_ms;
    struct backoff backoff;
};

struct links {
    struct link links[LINKS_COUNT];
    size_t count; /* of them that there are */
    struct clock clock;
    struct log_gate gate; /* of the lines that say why there is none */
};

struct links_setup {
    struct db_settings database;
    struct clock clock;
    uint64_t seed; /* of the waits' jitter */
    size_t count;  /* connections, at most LINKS_COUNT */
};

/* Begins to connect; waits for nothing. ST_FATAL when the heap is empty. links_done in any case. */
MUST_USE enum status links_init(struct links *links, const struct links_setup *setup, struct fault *fault);
/* Closes them without waiting; answers not taken yet are lost. */
void links_done(struct links *links);

/* One entry for each connection (fd -1: none). fds holds LINKS_COUNT. */
void links_poll(const struct links *links, struct pollfd *fds);
/* Lets go what small statements hold back (io/db.h, db_release): before waiting. */
void links_release(struct links *links);
/* How long poll may wait before links_pump must be called anyway. */
int links_wait_ms(const struct links *links);
/* Reads, writes, connects again what is due; fds as links_poll filled them and poll(2) answered. Never
 * blocks.
 */
void links_pump(struct links *links, const struct pollfd *fds);

/* The connection with the least in flight that has room; NULL: none. */
struct db *links_pick(struct links *links);
/* For a statement that may be joined: rather one where that goes on. */
struct db *links_pick_small(struct links *links);
size_t links_up(const struct links *links);
/* Why there is none: of the first connection. */
enum status links_why(const struct links *links, struct fault *fault);
/* The next answer of any of them. */
MUST_USE bool links_take(struct links *links, struct db_answer *answer);

#endif
