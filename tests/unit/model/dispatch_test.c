/* The code's table of moves against the documentation's: design.md §3's own rows, copied here as text. */
#include "model/dispatch.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *const documented[] = {
    "| from \\ outcome | sent | failed | suppressed | delivered | receipt_error | expired |",
    "| queued | ✓ | ✓ | ✓ | | | |",
    "| failed/Unconfirmed | ✓ | ✓ any other code | ✓ | | | |",
    "| sent | | | | ✓ | ✓ | ✓ |",
    "| any final state | – | – | – | – | – | – |",
};

/* The trimmed text of the n-th cell. */
static struct span cell_of(const char *row, int n)
{
    const char *at = row + 1;
    for (; n > 0; n--)
        at = strchr(at, '|') + 1;
    const char *end = strchr(at, '|');
    while (*at == ' ' && at < end)
        at++;
    while (end > at && end[-1] == ' ')
        end--;
    return (struct span){at, (size_t)(end - at)};
}

static bool is_ticked(struct span cell)
{
    return cell.bytes >= strlen("✓") && memcmp(cell.at, "✓", strlen("✓")) == 0;
}

static int looked;

/* One row for one concrete state and error. */
static void check_row(const char *row, enum dispatch_state from, const char *from_error)
{
    for (int column = 1; column <= 6; column++) {
        struct span cell = cell_of(row, column);
        enum dispatch_state to;
        cr_assert(dispatch_state_parse(cell_of(documented[0], column), &to));
        const char *other = to == DISPATCH_FAILED ? DISPATCH_PROVIDER_REJECTED : NULL;
        cr_assert_eq(dispatch_may_move(from, from_error, to, other), is_ticked(cell), "%s/%s -> %s",
                     dispatch_state_name(from), from_error ? from_error : "", dispatch_state_name(to));
        bool any_but_itself = strstr(row, "any other code") != NULL && to == DISPATCH_FAILED;
        if (to == DISPATCH_FAILED)
            cr_assert_eq(dispatch_may_move(from, from_error, to, DISPATCH_UNCONFIRMED),
                         is_ticked(cell) && !any_but_itself);
        looked++;
    }
    cr_assert_not(dispatch_may_move(from, from_error, DISPATCH_QUEUED, NULL), "nothing goes back");
}

Test(dispatch, moves_are_the_documented_ones)
{
    looked = 0;
    check_row(documented[1], DISPATCH_QUEUED, NULL);
    check_row(documented[1], DISPATCH_QUEUED, "");
    check_row(documented[2], DISPATCH_FAILED, DISPATCH_UNCONFIRMED);
    check_row(documented[3], DISPATCH_SENT, NULL);
    static const struct {
        enum dispatch_state state;
        const char *error;
    } final[] = {{DISPATCH_FAILED, DISPATCH_NOT_REGISTERED},
                 {DISPATCH_FAILED, NULL},
                 {DISPATCH_FAILED, DISPATCH_TICKET_MISMATCH},
                 {DISPATCH_SUPPRESSED, DISPATCH_PREFERENCE},
                 /* the code alone makes nothing provisional */
                 {DISPATCH_SUPPRESSED, DISPATCH_UNCONFIRMED},
                 {DISPATCH_DELIVERED, NULL},
                 {DISPATCH_RECEIPT_ERROR, DISPATCH_NOT_REGISTERED},
                 {DISPATCH_EXPIRED, NULL}};
    for (size_t i = 0; i < sizeof final / sizeof final[0]; i++)
        check_row(documented[4], final[i].state, final[i].error);
    cr_assert_eq(looked, 12 * 6);
}

/* Every move to a final state raises the version; nothing that is not final has one. */
Test(dispatch, a_later_final_state_has_a_higher_version)
{
    static const char *const errors[] = {NULL, "", DISPATCH_UNCONFIRMED, DISPATCH_PROVIDER_REJECTED};
    enum { ERRORS = sizeof errors / sizeof errors[0] };
    int moves = 0;
    for (int from = 0; from < DISPATCH_STATES * ERRORS; from++) {
        enum dispatch_state state = (enum dispatch_state)(from / ERRORS);
        const char *error = errors[from % ERRORS];
        bool final = state != DISPATCH_QUEUED && state != DISPATCH_SENT;
        cr_assert_eq(dispatch_version(state, error) > 0, final);
        for (int to = 0; to < DISPATCH_STATES * ERRORS; to++) {
            enum dispatch_state next = (enum dispatch_state)(to / ERRORS);
            if (!final || !dispatch_may_move(state, error, next, errors[to % ERRORS]))
                continue;
            moves++; /* to sent, and from there to any final state */
            cr_assert(next == DISPATCH_SENT || dispatch_version(next, errors[to % ERRORS]) > 1);
        }
    }
    cr_assert_eq(dispatch_version(DISPATCH_FAILED, DISPATCH_UNCONFIRMED), 1);
    cr_assert_eq(dispatch_version(DISPATCH_SUPPRESSED, DISPATCH_UNCONFIRMED), 2);
    cr_assert_eq(moves, 4 + 3 + 4); /* of failed/Unconfirmed alone: sent, failed otherwise, suppressed */
}

Test(dispatch, names_both_ways)
{
    for (int i = 0; i < DISPATCH_STATES; i++) {
        enum dispatch_state state;
        cr_assert(dispatch_state_parse(span_of(dispatch_state_name((enum dispatch_state)i)), &state));
        cr_assert_eq((int)state, i);
    }
    enum dispatch_state untouched = DISPATCH_SENT;
    static const char *const bad[] = {"", "Sent", "sen", "sent ", "receipt-error", "unconfirmed"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(dispatch_state_parse(span_of(bad[i]), &untouched));
    cr_assert_not(dispatch_state_parse((struct span){"sent\0", 5}, &untouched));
    cr_assert_eq(untouched, DISPATCH_SENT);
}

Test(dispatch, ids_carry_batch_and_ordinal)
{
    static const struct {
        int64_t batch;
        uint32_t ordinal;
    } ids[] = {{1, 0}, {1, 1}, {1, (1U << 20) - 1}, {(1LL << 43) - 1, 77}, {123456789, 1048575}};
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        int64_t id = dispatch_id(ids[i].batch, ids[i].ordinal);
        cr_assert_gt(id, 0);
        cr_assert_eq(dispatch_batch_id(id), ids[i].batch);
        cr_assert_eq(dispatch_ordinal(id), ids[i].ordinal);
    }
}
