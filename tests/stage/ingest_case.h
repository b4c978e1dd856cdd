/* What the ingest cases share: a world with a dispatcher that only ingests, and what its dead letters say. */
#ifndef BELFRY_TESTS_INGEST_CASE_H
#define BELFRY_TESTS_INGEST_CASE_H

#include <stdbool.h>

#include "support/harness.h"

enum { DEAD_MAX = 64, DEAD_TEXT_MAX = 512 };

struct dead_letter {
    char code[48], field[96], message[DEAD_TEXT_MAX], topic[128], key[64];
    char value[DEAD_TEXT_MAX]; /* cut */
    size_t value_bytes;
    int64_t offset; /* of origin */
    int partition;
    int64_t cut; /* 0: whole */
};

struct dead_letters {
    struct dead_letter all[DEAD_MAX];
    int count;
};

#define INGEST_ONLY "[run]\nroles = ingest\n"

/* World, database, topics; no simulator. */
void case_open(struct world *w, const char *name, int partitions);
/* A dispatcher that ingests only; extra ini text may be NULL. Ready. */
struct child *case_dispatcher(struct world *w, const char *extra);
/* A good event on partition 0: run, type t, workspace w, recipient. */
void case_produce_good(struct world *w, const char *run, const char *recipient);
void case_read_dead(struct world *w, struct dead_letters *dead);
/* Nobody stores a notification until it is dropped. */
void *case_lock(struct world *w);
void case_unlock(void *lock);
/* Until so many statements stand before it. */
void case_wait_blocked(struct world *w, int statements);
/* Everything of the events topic is read. */
void case_wait_read(struct world *w);
/* Books, then an orderly end. */
void case_close(struct world *w, struct child *dispatcher);

#endif
