/* Places of a walk through a cursor and back; the longest snapshot there is fits. */
#include "feed/cursors.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct cursor_keys keys;

static void make_keys(void)
{
    memset(&keys, 0, sizeof keys);
    memset(keys.keys[0].id, 'k', CURSOR_KEY_ID_MAX);
    keys.keys[0].secret.count = CRYPTO_KEY_MIN;
    memset(keys.keys[0].secret.bytes, 7, CRYPTO_KEY_MIN);
    keys.count = 1;
}

static size_t there_and_back(const struct cursors_place *place)
{
    char text[CURSOR_TEXT_MAX + 1];
    struct cursor cursor;
    struct cursors_place back;
    struct fault fault;
    make_keys();
    cr_assert_eq(cursors_write(place, &keys, text, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(cursor_decode(&keys, span_of(text), &cursor, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(cursors_read(&cursor, &back, &fault), ST_OK, "%s", fault.text);
    cr_expect_eq(back.direction, place->direction);
    cr_expect_eq(back.contract, place->contract);
    cr_expect_eq(back.at.instant, place->at.instant);
    cr_expect_eq(page_position_compare(&back.at, &place->at), 0);
    cr_expect_eq(back.has_newest, place->has_newest);
    cr_expect(!place->has_newest || page_position_compare(&back.newest, &place->newest) == 0);
    cr_expect_eq(back.cluster, place->cluster);
    cr_expect_eq(back.snapshot.xmin, place->snapshot.xmin);
    cr_expect_eq(back.snapshot.xmax, place->snapshot.xmax);
    cr_expect_eq(back.snapshot.count, place->snapshot.count);
    cr_expect_eq(memcmp(back.snapshot.running, place->snapshot.running,
                        place->snapshot.count * sizeof place->snapshot.running[0]),
                 0);
    return strlen(text);
}

Test(cursors, live)
{
    struct cursors_place place = {.direction = CURSOR_NEWER,
                                  .contract = CURSOR_LIVE,
                                  .at = {.created_at_us = 1790000000123456, .instant = true},
                                  .fingerprint = 5,
                                  .issued_at_us = 6};
    there_and_back(&place);
    struct page_position up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.at), 0);
    place.has_newest = true;
    place.newest = (struct page_position){.created_at_us = 1790000000123456, .id = {{9, 8, 7}}};
    there_and_back(&place);
    up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.newest), 0, "above every instant there is its entry");
    place.at = (struct page_position){.created_at_us = 1790000000123457, .id = {{1}}};
    up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.at), 0);
}

Test(cursors, boundary)
{
    struct cursors_place place = {.direction = CURSOR_OLDER,
                                  .contract = CURSOR_BOUNDARY,
                                  .at = {.created_at_us = 1790000000123456, .id = {{1, 2, 3}}},
                                  .has_newest = true,
                                  .newest = {.created_at_us = 1790000000123456, .id = {{9, 8, 7}}},
                                  .cluster = 0xfedcba98,
                                  .snapshot = {.xmin = 1, .xmax = 1}};
    there_and_back(&place);
    /* As many as there may be, as far apart as they may be. */
    uint64_t xmin = UINT64_MAX / 2, step = (PAGE_RUNNING_SPREAD_MAX - 1) / PAGE_RUNNING_MAX;
    place.snapshot = (struct page_snapshot){
        .xmin = xmin, .xmax = xmin + PAGE_RUNNING_SPREAD_MAX - 1, .count = PAGE_RUNNING_MAX};
    for (size_t i = 0; i < PAGE_RUNNING_MAX; i++)
        place.snapshot.running[i] = xmin + i * step;
    size_t bytes = there_and_back(&place);
    printf("cursors: %d running transactions, %llu apart: %zu characters of %d\n", PAGE_RUNNING_MAX,
           (unsigned long long)step, bytes, CURSOR_TEXT_MAX);
}

Test(cursors, export_is_not_a_feed)
{
    struct cursors_place place;
    struct fault fault;
    struct cursor cursor = {
        .feed = "notifications", .direction = CURSOR_OLDER, .contract = CURSOR_EXPORT_SNAPSHOT};
    cr_expect_eq(cursors_read(&cursor, &place, &fault), ST_REJECT);
    cr_expect_str_eq(fault.code, CURSOR_UNSUPPORTED);
    cursor.contract = CURSOR_BOUNDARY; /* without its snapshot */
    cr_expect_eq(cursors_read(&cursor, &place, &fault), ST_REJECT);
}
