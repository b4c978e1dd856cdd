/* What goes together in a request; halving and splitting of refused ones. */
#include "ready.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 100 };

static struct ready made(void)
{
    struct ready ready;
    struct fault fault;
    cr_assert_eq(ready_init(&ready, 600, &fault), ST_OK);
    return ready;
}

static void add(struct ready *ready, int64_t id, uint32_t project, bool urgent)
{
    struct ready_row row = {.dispatch_id = id, .project = project, .urgent = urgent};
    ready_add(ready, &row);
}

Test(fanout_ready, one_project_and_urgency_a_request_in_order)
{
    struct ready ready = made();
    struct ready_row rows[ROWS];
    for (int64_t i = 0; i < 12; i++)
        add(&ready, i, (uint32_t)i % 2, i % 3 == 0);
    cr_expect_eq(ready.urgent, 4);
    cr_expect_eq(ready_together(&ready, 1, 100), 4); /* 1 5 7 11 */
    cr_expect_eq(ready_together(&ready, 1, 3), 3);
    ready_take(&ready, 1, 3, rows);
    cr_expect(rows[0].dispatch_id == 1 && rows[1].dispatch_id == 5 && rows[2].dispatch_id == 7);
    cr_expect_eq(ready.count, 9);
    ready_take(&ready, 0, 2, rows); /* urgent: 0 6 */
    cr_expect(rows[0].dispatch_id == 0 && rows[1].dispatch_id == 6);
    cr_expect_eq(ready.urgent, 2);
    ready_add_first(&ready, rows, 2);
    cr_expect_eq(ready.rows[0].dispatch_id, 0);
    cr_expect_eq(ready.rows[1].dispatch_id, 6);
    cr_expect_eq(ready.rows[2].dispatch_id, 2);
    cr_expect_eq(ready.urgent, 4);
    ready_done(&ready);
}

/* Sends until nothing is ready; a request that holds a bad id is refused as a whole. Returns the requests. */
static int halve_until_alone(struct ready *ready, const int64_t *bad, size_t bad_count, size_t *alone)
{
    int requests = 0;
    while (ready->count > 0) {
        struct ready_row rows[ROWS];
        size_t count = ready_together(ready, 0, ROWS);
        bool refused = false;
        ready_take(ready, 0, count, rows);
        requests++;
        for (size_t i = 0; i < count; i++) {
            for (size_t k = 0; k < bad_count; k++)
                refused = refused || rows[i].dispatch_id == bad[k];
        }
        if (refused && count == 1)
            (*alone)++;
        else if (refused)
            ready_halve(ready, rows, count);
    }
    return requests;
}

Test(fanout_ready, halving_finds_the_bad_ones_and_sends_the_others)
{
    static const int64_t bad[] = {0, 41, 99};
    for (size_t bad_count = 0; bad_count <= 3; bad_count++) {
        struct ready ready = made();
        size_t alone = 0;
        for (int64_t i = 0; i < ROWS; i++)
            add(&ready, i, 0, false);
        int requests = halve_until_alone(&ready, bad, bad_count, &alone);
        printf("%zu bad of 100: %d requests\n", bad_count, requests);
        cr_expect_eq(alone, bad_count);
        cr_expect_leq(requests, 1 + 2 * 7 * (int)bad_count, "two a level and bad one");
        ready_done(&ready);
    }
}

Test(fanout_ready, splitting_by_name_keeps_the_order_and_does_nothing_for_one)
{
    static const char *const all[] = {"@a/x", "@b/y", "@a/x", "", "@b/y", "@a/x"};
    static const int64_t groups[3][3] = {{0, 2, 5}, {1, 4, -1}, {3, -1, -1}};
    struct ready ready = made();
    struct ready_row rows[6], taken[6];
    for (int64_t i = 0; i < 6; i++)
        rows[i] = (struct ready_row){.dispatch_id = i};
    static const char *const same[] = {"@a/x", "@a/x", "@a/x", "@a/x", "@a/x", "@a/x"};
    cr_expect_eq(ready_split(&ready, rows, same, 6), 1);
    cr_expect_eq(ready.count, 0);
    cr_expect_eq(ready_split(&ready, rows, all, 6), 3);
    cr_expect_eq(ready.count, 6);
    for (size_t g = 0; g < 3; g++) {
        size_t count = ready_together(&ready, 0, 100);
        ready_take(&ready, 0, count, taken);
        for (size_t i = 0; i < 3; i++) {
            if (groups[g][i] >= 0)
                cr_expect_eq(taken[i].dispatch_id, groups[g][i]);
            else
                cr_expect_leq(count, i);
        }
    }
    cr_expect_eq(ready.count, 0);
    ready_done(&ready);
}
