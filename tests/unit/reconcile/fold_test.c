/* Folding: several outcomes of one dispatch, from either start, in arrival order. */
#include <criterion/criterion.h>
#include <string.h>

#include "reconcile/fold.h"

struct told {
    enum dispatch_state outcome;
    const char *error, *ticket;
};

struct expected {
    bool moves;
    enum dispatch_state state;
    const char *error, *ticket; /* NULL: none */
};

struct row {
    struct told told[4]; /* ends with outcome DISPATCH_QUEUED */
    struct expected queued, unconfirmed;
};

#define SENT(ticket)                                                                                         \
    {                                                                                                        \
        DISPATCH_SENT, "", ticket                                                                            \
    }
#define FAILED(error)                                                                                        \
    {                                                                                                        \
        DISPATCH_FAILED, error, ""                                                                           \
    }
#define SUPPRESSED(error)                                                                                    \
    {                                                                                                        \
        DISPATCH_SUPPRESSED, error, ""                                                                       \
    }
#define AT_SENT(ticket)                                                                                      \
    {                                                                                                        \
        true, DISPATCH_SENT, NULL, ticket                                                                    \
    }
#define AT_FAILED(error)                                                                                     \
    {                                                                                                        \
        true, DISPATCH_FAILED, error, NULL                                                                   \
    }
#define AT_SUPPRESSED(error)                                                                                 \
    {                                                                                                        \
        true, DISPATCH_SUPPRESSED, error, NULL                                                               \
    }
#define STAYS(state)                                                                                         \
    {                                                                                                        \
        false, state, NULL, NULL                                                                             \
    }

static const struct row rows[] = {
    {{SENT("t1")}, AT_SENT("t1"), AT_SENT("t1")},
    {{SENT("")}, AT_SENT(NULL), AT_SENT(NULL)},
    {{SENT("t1"), SENT("t2")}, AT_SENT("t1"), AT_SENT("t1")},
    {{FAILED("Unconfirmed")}, AT_FAILED("Unconfirmed"), STAYS(DISPATCH_FAILED)},
    {{FAILED("Unconfirmed"), SENT("t1")}, AT_SENT("t1"), AT_SENT("t1")},
    {{SENT("t1"), FAILED("Unconfirmed")}, AT_SENT("t1"), AT_SENT("t1")},
    {{FAILED("Unconfirmed"), FAILED("Unconfirmed"), SENT("t1")}, AT_SENT("t1"), AT_SENT("t1")},
    {{FAILED("Unconfirmed"), FAILED("DeviceNotRegistered"), SENT("t1")},
     AT_FAILED("DeviceNotRegistered"),
     AT_FAILED("DeviceNotRegistered")},
    {{FAILED("MessageTooBig"), SENT("t1")}, AT_FAILED("MessageTooBig"), AT_FAILED("MessageTooBig")},
    {{SUPPRESSED("PushOff"), SENT("t1")}, AT_SUPPRESSED("PushOff"), AT_SUPPRESSED("PushOff")},
    {{FAILED("Unconfirmed"), SUPPRESSED("Expired")}, AT_SUPPRESSED("Expired"), AT_SUPPRESSED("Expired")},
};

static struct outcome outcome_of(const struct told *told, int64_t id, int64_t at_us)
{
    return (struct outcome){.dispatch_id = id,
                            .device_id = 7,
                            .outcome = told->outcome,
                            .error = span_of(told->error),
                            .ticket = span_of(told->ticket),
                            .attempt = 1,
                            .at_us = at_us};
}

static void check_text(size_t row, struct span text, const char *expected)
{
    if (expected == NULL)
        cr_assert_null(text.at, "row %zu", row);
    else
        cr_assert(span_is(text, expected), "row %zu: %.*s", row, (int)text.bytes, text.at);
}

static void check_end(size_t row, const struct outcome_end *end, const struct expected *expected)
{
    cr_assert_eq(end->moves, expected->moves, "row %zu", row);
    cr_assert_eq(end->state, expected->state, "row %zu", row);
    check_text(row, end->error, expected->error);
    check_text(row, end->ticket, expected->ticket);
}

Test(fold, rows)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct outcome outcomes[4];
        size_t count = 0;
        while (count < 4 && rows[i].told[count].outcome != DISPATCH_QUEUED) {
            outcomes[count] = outcome_of(&rows[i].told[count], 5, 100 + (int64_t)count);
            count++;
        }
        struct fold fold;
        struct fault fault;
        cr_assert_eq(fold_outcomes(outcomes, count, &arena, &fold, &fault), ST_OK);
        cr_assert_eq(fold.count, 1);
        cr_assert_eq(fold.items[0].outcomes, (int)count);
        check_end(i, &fold.items[0].queued, &rows[i].queued);
        check_end(i, &fold.items[0].unconfirmed, &rows[i].unconfirmed);
    }
    arena_done(&arena);
}

/* The statement knows two starts; should the table ever let an outcome in elsewhere, this says so. */
Test(fold, no_other_start_lets_an_outcome_in)
{
    static const enum dispatch_state outcomes[] = {DISPATCH_SENT, DISPATCH_FAILED, DISPATCH_SUPPRESSED};
    static const char *const errors[] = {"", "Unconfirmed", "DeviceNotRegistered"};
    int moves = 0;
    for (int from = 0; from < DISPATCH_STATES; from++) {
        for (size_t e = 0; e < 3; e++) {
            bool known = from == DISPATCH_QUEUED || (from == DISPATCH_FAILED && e == 1);
            for (size_t o = 0; o < 3; o++) {
                bool may = dispatch_may_move((enum dispatch_state)from, errors[e], outcomes[o], errors[2]);
                moves += may;
                cr_assert(known || !may, "%s/%s", dispatch_state_name((enum dispatch_state)from), errors[e]);
            }
        }
    }
    cr_assert_eq(moves, 12);
}

Test(fold, interleaved_dispatches_keep_their_own_order)
{
    static const struct told sent = SENT("t"), unconfirmed = FAILED("Unconfirmed"), dead = FAILED("Dead");
    struct outcome outcomes[6] = {
        outcome_of(&unconfirmed, 9, 1), outcome_of(&unconfirmed, 3, 2), outcome_of(&dead, 9, 3),
        outcome_of(&sent, 3, 4),        outcome_of(&sent, 9, 5),        outcome_of(&sent, 3, 6),
    };
    outcomes[5].device_id = 8; /* an id handed out again: another item, not folded with the others */
    struct arena arena;
    struct fold fold;
    struct fault fault;
    arena_init(&arena, 1 << 20);
    cr_assert_eq(fold_outcomes(outcomes, 6, &arena, &fold, &fault), ST_OK);
    cr_assert_eq(fold.count, 3);
    cr_assert_eq(fold.items[0].dispatch_id, 3);
    cr_assert_eq(fold.items[0].outcomes, 2);
    cr_assert_eq(fold.items[0].queued.state, DISPATCH_SENT);
    cr_assert_eq(fold.items[0].sent_at_us, 4);
    cr_assert_eq(fold.items[1].dispatch_id, 3);
    cr_assert_eq(fold.items[1].device_id, 8);
    cr_assert_eq(fold.items[1].sent_at_us, 6);
    cr_assert_eq(fold.items[2].dispatch_id, 9);
    cr_assert_eq(fold.items[2].outcomes, 3);
    cr_assert(span_is(fold.items[2].queued.error, "Dead"));
    arena_done(&arena);
}

Test(fold, a_full_arena_is_said)
{
    static const struct told sent = SENT("t");
    struct outcome outcome = outcome_of(&sent, 1, 1);
    struct arena arena;
    struct fold fold;
    struct fault fault;
    arena_init(&arena, 16);
    cr_assert_eq(fold_outcomes(&outcome, 1, &arena, &fold, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "memory");
    arena_done(&arena);
}
