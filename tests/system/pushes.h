/* What the tests of the provider's rate, refusals and outages have in common: a world without a reconciler,
 * in which the receipts topic and the provider's record tell what became of each push. */
#ifndef BELFRY_TESTS_PUSHES_H
#define BELFRY_TESTS_PUSHES_H

#include "support/harness.h"

/* Database, topics, simulator with these arguments (NULL: none). */
void pushes_open(struct world *w, const char *name, const char *const *simulator_arguments);
/* Users <run>-0 … with a device each: ExponentPushToken[<run>-0] … */
void pushes_devices(struct world *w, const char *run, int count);
/* One event for all users of the run; `more` is JSON members put in (",\"push\":{…}"), or "". */
void pushes_event(struct world *w, const char *run, const char *event, int count, const char *more);
/* Until the event's notifications are there and no batch is left. */
void pushes_wait(struct world *w, const char *event, int count);
/* Outcome records that hold both texts (NULL: any). */
int pushes_outcomes(struct world *w, const char *text, const char *other);
/* Asserts that every accepted push was accepted once; returns how many pushes were. */
int64_t pushes_accepted_once(struct world *w);

struct pushes_rate {
    int64_t messages, requests, largest;
    int64_t first_ms, last_ms;
    int64_t busiest; /* messages within a second, both its ends counted */
};
/* From the provider's record; only lines that hold text (NULL: all). */
struct pushes_rate pushes_rate_seen(struct world *w, const char *text);

/* The number behind `"field":` in the child's last log line with this id; -1: none. */
int64_t pushes_log_number(struct child *child, const char *id, const char *field);
/* GET /readyz: its status; text gets the body. */
long pushes_readyz(struct child *child, char *text, size_t size);

/* What landing branches still call it. */

#endif
