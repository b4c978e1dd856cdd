/* A plan of records for the events topic, made from its parameters alone, and what must come of it.
 *
 * Of `records` records 10 % are duplicates of four kinds (right behind the original, later in the same
 * partition, another run with the same idempotency_key, another partition), 1 % are poison of every reason
 * code, `tombstones` have no value, the rest are originals. Every 50th original has three recipients. Users
 * own 0, 1 or 2 devices. */
#ifndef BELFRY_TESTS_LEDGER_H
#define BELFRY_TESTS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "support/harness.h"

struct ledger {
    int records, tombstones, users, partitions;
    const char *tag;    /* in run ids, titles and tokens: tells this plan's rows from another's */
    bool with_sqlstate; /* some poison is refused by the CHECK of ledger_add_check only */

    /* Filled by ledger_produce: what was put into the topic so far. */
    int64_t originals, duplicates, poison, tombstones_made;
    int64_t recipients;    /* of originals and duplicates */
    int64_t notifications; /* distinct valid keys */
    int64_t dispatches;    /* notifications x enabled devices of their recipient */
    int64_t poison_by_code[6];
};

enum ledger_code {
    LEDGER_JSON,
    LEDGER_NOT_OBJECT,
    LEDGER_FIELD,
    LEDGER_NUL,
    LEDGER_TOO_BIG,
    LEDGER_SQLSTATE
};
extern const char *const ledger_code_names[6];

/* The CHECK that refuses the title of the sqlstate poison. */
void ledger_add_check(struct world *w);
/* Registers every user's devices through the devices topic; returns how many there are. */
int64_t ledger_register(struct world *w, const struct ledger *ledger);
/* Puts records [from, to) of the plan into the events topic and adds them to the figures. Acknowledged. */
void ledger_produce(struct world *w, struct ledger *ledger, int from, int to);
int ledger_devices_of(int user);
void ledger_token(const struct ledger *ledger, int user, int device, char *token /* [96] */);

/* After things came to rest: rows = distinct keys, dispatches = what the plan says, dead letters by distinct
 * origin = poison with each code as planned, accepted at most once per (notification, token), group lag 0,
 * the books balance. Prints each figure beside the expected one. */
void ledger_check(struct world *w, const struct ledger *ledger);
/* (notification_id, token) pairs that the provider accepted more than once. */
int64_t ledger_accepted_twice(struct world *w);

#endif
