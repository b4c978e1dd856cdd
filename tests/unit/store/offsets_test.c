/* What a failed fence means, row by row (design.md §1 point 4). */
#include <criterion/criterion.h>

#include "store/offsets.h"

struct row {
    int64_t generation, next_offset;
    enum offsets_verdict verdict;
};

Test(offsets, judge)
{
    const struct offsets_part part = {.partition = 3, .generation = 7, .start = 100, .end = 200};
    static const struct row rows[] = {
        {7, 100, OFFSETS_HELD},
        {7, 200, OFFSETS_COMMITTED},
        {7, 99, OFFSETS_WENT_BACK},
        {7, 0, OFFSETS_WENT_BACK},
        {7, OFFSET_UNKNOWN, OFFSETS_LOST},
        {8, 100, OFFSETS_LOST},
        {8, 200, OFFSETS_LOST},
        {6, 100, OFFSETS_LOST},
        {0, OFFSET_UNKNOWN, OFFSETS_LOST},
        {7, 150, OFFSETS_LOST},
        {7, 201, OFFSETS_LOST},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct offsets_seat row = {
            .partition = 3, .generation = rows[i].generation, .next_offset = rows[i].next_offset};
        cr_expect_eq(offsets_judge(&part, &row), rows[i].verdict, "row %zu", i);
    }
}
