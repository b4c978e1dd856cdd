/* The producer's plan is what system tests count against: exact shares, every code, no duplicate without its
 * original, and the same for the same seed. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/produce.h"

enum { EVENTS = 50000 };

static const struct produce_options options = {.count = EVENTS,
                                               .users = 500,
                                               .partitions = 4,
                                               .tombstones = 50,
                                               .duplicates = 10,
                                               .poison = 1,
                                               .same_timestamp = 40,
                                               .seed = 7,
                                               .base_ms = 1800000000000};

Test(produce, plans_exact_shares)
{
    static struct planned all[EVENTS];
    static const char *const codes[] = {"json", "not_object", "field", "nul", "too_big"};
    struct plan plan;
    long kinds[KIND_DEVICE] = {0}, duplicates[DUP_KINDS] = {0}, poison[5] = {0}, same = 0;
    cr_assert(plan_init(&plan, &options));
    for (size_t i = 0; i < EVENTS; i++) {
        plan_next(&plan, &all[i]);
        kinds[all[i].kind]++;
        same += all[i].timestamp_ms == options.base_ms - 30000;
        cr_assert(all[i].partition >= 0 && all[i].partition < 4);
        if (all[i].kind == KIND_DUPLICATE) {
            const struct planned *of = &all[all[i].of];
            duplicates[all[i].duplicate]++;
            cr_assert(all[i].of < i && of->kind == KIND_EVENT, "%zu repeats %u", i, all[i].of);
            cr_assert((all[i].partition == of->partition) == (all[i].duplicate != DUP_OTHER_PARTITION));
            cr_assert(all[i].duplicate != DUP_LATER_BATCH || all[i].of + LATER_RECORDS <= i);
        } else {
            cr_assert(all[i].of == i);
        }
        for (size_t c = 0; all[i].kind == KIND_POISON && c < 5; c++)
            poison[c] += strcmp(poison_code(all[i].poison), codes[c]) == 0;
    }
    plan_done(&plan);
    cr_expect(kinds[KIND_DUPLICATE] == 5000 && kinds[KIND_POISON] == 500 && kinds[KIND_TOMBSTONE] == 50);
    for (size_t i = 0; i < DUP_KINDS; i++)
        cr_expect(duplicates[i] > 1000, "%s: %ld", duplicate_name((enum duplicate_kind)i), duplicates[i]);
    for (size_t i = 0; i < 5; i++)
        cr_expect(poison[i] == 100, "%s: %ld", codes[i], poison[i]);
    cr_expect(same > EVENTS * 39 / 100 && same < EVENTS * 41 / 100, "%ld", same);
    printf("produce: %ld events, %ld duplicates, %ld poison, %ld of one timestamp\n", kinds[KIND_EVENT],
           kinds[KIND_DUPLICATE], kinds[KIND_POISON], same);
}

/* A key or a value of a slot is the same whoever asks, and differs between slots. */
Test(produce, repeats_an_original_exactly)
{
    struct buffer first, again;
    buffer_init(&first, 1 << 20);
    buffer_init(&again, 1 << 20);
    for (uint32_t slot = 0; slot < 2000; slot++) {
        struct planned original = {.slot = slot, .of = slot, .kind = KIND_EVENT};
        struct planned copy = {
            .slot = slot + 1, .of = slot, .kind = KIND_DUPLICATE, .duplicate = DUP_SAME_BATCH};
        struct planned retried = {
            .slot = slot + 9, .of = slot, .kind = KIND_DUPLICATE, .duplicate = DUP_OTHER_RUN};
        struct contents contents;
        char key[KEY_MAX_BYTES], same[KEY_MAX_BYTES], other[KEY_MAX_BYTES];
        contents_of(&options, slot, &contents);
        buffer_reset(&first);
        buffer_reset(&again);
        contents_write(&options, &original, &contents, &first);
        contents_write(&options, &copy, &contents, &again);
        cr_assert(first.bytes == again.bytes && memcmp(first.at, again.at, first.bytes) == 0);
        contents_key(&options, &original, &contents, 0, key);
        contents_key(&options, &copy, &contents, 0, same);
        contents_key(&options, &retried, &contents, 0, other);
        cr_assert_str_eq(key, same);
        /* Another run is the same event only with an idempotency_key of its own. */
        cr_assert((strcmp(key, other) == 0) == contents.has_key, "%s %s", key, other);
        buffer_reset(&again);
        contents_write(&options, &retried, &contents, &again);
        cr_assert(first.bytes != again.bytes);
    }
    buffer_done(&first);
    buffer_done(&again);
}
