/* The dispatcher's part, played by hand for tests of the reconciler: rows put in, outcomes produced, so that
 * each case has exactly the input it names. */
#ifndef BELFRY_TESTS_HAND_H
#define BELFRY_TESTS_HAND_H

#include "support/harness.h"

#define HAND_COUNT(w, n, ...) cr_assert_eq(world_count(w, __VA_ARGS__), n, "%s", #__VA_ARGS__)

/* Database, topics, simulator. */
void hand_open(struct world *w, const char *name, int partitions);
/* count queued dispatches in one batch, each with a device and a user of its own, and the books to match.
 * Dispatch (batch << 20) + n is of device and user of the same number. queued_at is SQL. */
void hand_batch(struct world *w, int batch, int count, const char *queued_at);
long long hand_id(int batch, int ordinal);
/* Tells the reconciler an outcome. text: the ticket of a `sent` ("" : none), else the error. */
void hand_tell(struct world *w, long long id, const char *outcome, const char *text);
/* Sends to the simulator what the dispatcher would, at most 100 messages, and tells the tickets. */
void hand_send(struct world *w, int batch, int count);
/* The same with a time of its own, as many seconds from now as said. */
void hand_tell_at(struct world *w, long long id, const char *outcome, const char *text, int from_now_s);
/* `batches` batches of `each` dispatches as if told and drained: `sent`, due now. Their tickets are the
 * simulator's from number first_ticket on (simulator_tickets returns run); run 0: tickets nobody knows. */
struct hand_sent {
    int batch, batches, each;
    uint32_t run;
    long long first_ticket;
    const char *queued_at; /* SQL */
};
void hand_put_sent(struct world *w, const struct hand_sent *sent);
/* Until everything told was applied. */
void hand_drained(struct world *w);
/* Until so many requests for receipts have come since the simulator's start or reset. */
void hand_wait_calls(struct world *w, int64_t calls);
/* Table `transitions` (id, from_state, to_state): every change of a dispatch's state, so that "once" can be
 * counted. */
void hand_record_transitions(struct world *w);

#endif
