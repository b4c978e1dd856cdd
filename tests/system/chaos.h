/* What the tests of the dispatcher under faults share: a world with a ledger, and the three sentences that
 * must hold whatever was done to it: nothing is lost, nothing is doubled, at most one window (600) for each
 * kill is Unconfirmed. */
#ifndef BELFRY_TESTS_CHAOS_H
#define BELFRY_TESTS_CHAOS_H

#include "support/harness.h"
#include "system/ledger.h"

enum { CHAOS_WINDOW = 600, CHAOS_SETTLE_S = 180 };

/* Small batches, a short session and lease, no rate limit: faults are found out in seconds. */
#define CHAOS_INI                                                                                            \
    "[kafka]\nsession.timeout.ms = 1500\nheartbeat.interval.ms = 250\n"                                      \
    "[ingest]\nbatch_max_events = 200\n"                                                                     \
    "[fanout]\nlease = 1500ms\nsweep_interval = 200ms\nrate_limit = 100000\n"

struct chaos_seen;

struct chaos {
    struct world w;
    struct ledger ledger;
    int made; /* records of the plan put into the topic so far */
    struct child *reconciler, *simulator;
    struct chaos_seen *seen; /* of the provider's record, so far */
    int own;                 /* enum chaos_own */
};

/* A fact of the whole world now; what is still open counts as lost. */
struct chaos_figures {
    int64_t lost;        /* notifications and dispatches missing or without an outcome; sent ones that the
                            provider never took; dispatches that are neither taken nor failed */
    int64_t doubled;     /* rows beyond the ledger's, (notification, token) accepted twice */
    int64_t unconfirmed; /* dispatches failed/Unconfirmed */
    int64_t failed;      /* failed with any other code */
    int64_t expired;     /* suppressed/Expired */
    int64_t accepted;    /* messages that the provider took */
    int64_t unbalanced;  /* rows of belfry_books that are not ok */
};

enum chaos_own { CHAOS_SHARED = 0, CHAOS_OWN_POSTGRES = 1, CHAOS_OWN_KAFKA = 2 };

/* World, topics, simulator, reconciler, devices registered. own: which servers are the test's. */
void chaos_open(struct chaos *c, const char *name, int partitions, enum chaos_own own);
void chaos_close(struct chaos *c);
/* The next records of the plan, acknowledged. */
void chaos_produce(struct chaos *c, int count);
/* Until every record is stored, no batch is left, no dispatch is queued and no outcome is unread. */
void chaos_settle(struct chaos *c, int seconds);
/* The same without failing: false when there is still something after seconds. */
bool chaos_settled(struct chaos *c, int seconds);
void chaos_count(struct chaos *c, struct chaos_figures *figures);
/* Prints the figures under the name and checks the three sentences and the ledger. */
void chaos_check(struct chaos *c, const char *what, int64_t unconfirmed_max, struct chaos_figures *figures);
/* tests/support/postgres or tests/support/kafka with the test's own folder. */
void chaos_postgres(struct chaos *c, const char *verb, const char *mode);
void chaos_kafka(struct chaos *c, const char *verb, const char *mode);
/* Waits until the process stands still (SIGSTOP). */
bool chaos_is_frozen(const struct child *child);
int64_t chaos_stored(struct chaos *c);

#endif
