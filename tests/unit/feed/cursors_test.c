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
    static const char feed[] = "a-feed-whose-name-is-as-long-as-the-name-of-a-feed-can-be-x-63b";
    char text[CURSOR_TEXT_MAX + 1];
    struct cursor cursor;
    struct cursors_place back;
    struct fault fault;
    make_keys();
    cr_assert_eq(cursors_write(feed, place, &keys, text, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(cursor_decode(&keys, span_of(text), &cursor, &fault), ST_OK, "%s", fault.text);
    cr_assert_eq(cursors_read(&cursor, place->at.id.type, &back, &fault), ST_OK, "%s", fault.text);
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
    struct cursors_place place = {
        .direction = CURSOR_NEWER,
        .contract = CURSOR_LIVE,
        .at = {.created_at_us = 1790000000123456, .instant = true, .id = {.type = SOURCE_UUID}},
        .fingerprint = 5,
        .issued_at_us = 6};
    there_and_back(&place);
    struct page_position up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.at), 0);
    place.has_newest = true;
    place.newest = (struct page_position){.created_at_us = 1790000000123456,
                                          .id = {.type = SOURCE_UUID, .uuid = {{9, 8, 7}}}};
    there_and_back(&place);
    up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.newest), 0, "above every instant there is its entry");
    place.at =
        (struct page_position){.created_at_us = 1790000000123457, .id = {.type = SOURCE_UUID, .uuid = {{1}}}};
    up_to = cursors_up_to(&place);
    cr_expect_eq(page_position_compare(&up_to, &place.at), 0);
}

Test(cursors, boundary)
{
    struct cursors_place place = {
        .direction = CURSOR_OLDER,
        .contract = CURSOR_BOUNDARY,
        .at = {.created_at_us = 1790000000123456, .id = {.type = SOURCE_UUID, .uuid = {{1, 2, 3}}}},
        .has_newest = true,
        .newest = {.created_at_us = 1790000000123456, .id = {.type = SOURCE_UUID, .uuid = {{9, 8, 7}}}},
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

/* The same of the other kinds of id, at their longest: what the statement gives fits. */
Test(cursors, ids)
{
    static const enum source_type types[] = {SOURCE_BIGINT, SOURCE_TEXT};
    for (size_t i = 0; i < 2; i++) {
        bool text = types[i] == SOURCE_TEXT;
        size_t count = text ? PAGE_RUNNING_TEXT_MAX : PAGE_RUNNING_MAX;
        uint64_t spread = text ? PAGE_RUNNING_SPREAD_TEXT_MAX : PAGE_RUNNING_SPREAD_MAX, xmin = 77;
        struct source_id last = source_id_highest(types[i]);
        struct cursors_place place = {
            .direction = CURSOR_OLDER,
            .contract = CURSOR_LIVE,
            .at = {.created_at_us = 1790000000123456, .id = last},
            .has_newest = true,
            .newest = {.created_at_us = 1790000000123457, .id = source_id_lowest(types[i])},
        };
        there_and_back(&place);
        place.newest.id = last;
        size_t live = there_and_back(&place);
        place.contract = CURSOR_BOUNDARY;
        place.snapshot = (struct page_snapshot){.xmin = xmin, .xmax = xmin + spread - 1, .count = count};
        for (size_t k = 0; k < count; k++)
            place.snapshot.running[k] = xmin + k * ((spread - 1) / count);
        printf("cursors: %s ids: live %zu, boundary %zu characters of %d\n", text ? "text" : "bigint", live,
               there_and_back(&place), CURSOR_TEXT_MAX);
        place.at = (struct page_position){.created_at_us = 5, .instant = true, .id = {.type = types[i]}};
        there_and_back(&place);
    }
}

/* A cursor of another kind of id is none of this feed's. */
Test(cursors, another_id)
{
    struct cursor cursor = {
        .direction = CURSOR_OLDER, .contract = CURSOR_LIVE, .id_type = CURSOR_ID_BIGINT, .id_bigint = 5};
    struct cursors_place place;
    struct fault fault;
    cr_expect_eq(cursors_read(&cursor, SOURCE_BIGINT, &place, &fault), ST_OK);
    cr_expect_eq(place.at.id.number, 5);
    cr_expect_eq(cursors_read(&cursor, SOURCE_UUID, &place, &fault), ST_REJECT);
    cr_expect_eq(cursors_read(&cursor, SOURCE_TEXT, &place, &fault), ST_REJECT);
    cr_expect_str_eq(fault.code, CURSOR_INVALID);
}

Test(cursors, export_is_not_a_feed)
{
    struct cursors_place place;
    struct fault fault;
    struct cursor cursor = {
        .feed = "notifications", .direction = CURSOR_OLDER, .contract = CURSOR_EXPORT_SNAPSHOT};
    cr_expect_eq(cursors_read(&cursor, SOURCE_UUID, &place, &fault), ST_REJECT);
    cr_expect_str_eq(fault.code, CURSOR_INVALID);
    cursor.contract = CURSOR_BOUNDARY; /* without its snapshot */
    cr_expect_eq(cursors_read(&cursor, SOURCE_UUID, &place, &fault), ST_REJECT);
}
