/* One meaning, one number; another meaning, another. */
#include "wire/fingerprint.h"

#include <criterion/criterion.h>

static struct fingerprint_query base(const struct fingerprint_filter *filters, size_t count)
{
    return (struct fingerprint_query){.feed = span_of("notifications"),
                                      .workspace = span_of("w"),
                                      .recipient = span_of("u"),
                                      .sort = span_of("created_at,id"),
                                      .contract = span_of("live"),
                                      .filters = filters,
                                      .filter_count = count};
}

Test(fingerprint, order_of_filters_does_not_matter)
{
    const struct fingerprint_filter one[] = {{span_of("category"), span_of("a")},
                                             {span_of("event_type"), span_of("b")},
                                             {span_of("unread"), span_of("true")}};
    const struct fingerprint_filter other[] = {one[2], one[0], one[1]};
    struct fingerprint_query a = base(one, 3), b = base(other, 3);
    cr_assert_eq(fingerprint_of(&a), fingerprint_of(&b));
}

Test(fingerprint, is_fixed)
{
    /* Part of every cursor given out: may change with the cursor's version only. */
    struct fingerprint_query query = base(NULL, 0);
    cr_assert_eq(fingerprint_of(&query), 0x2a26f78c58f0a6b4ULL, "%llx",
                 (unsigned long long)fingerprint_of(&query));
}

Test(fingerprint, everything_else_matters)
{
    const struct fingerprint_filter none_like[] = {{span_of(""), span_of("")}};
    const struct fingerprint_filter category[] = {{span_of("category"), span_of("a")}};
    const struct fingerprint_filter value[] = {{span_of("category"), span_of("b")}};
    const struct fingerprint_filter glued[] = {{span_of("categorya"), span_of("")}};
    const struct fingerprint_filter empty[] = {{span_of("category"), span_of("")}};
    struct fingerprint_query rows[16];
    for (int i = 0; i < 16; i++)
        rows[i] = base(NULL, 0);
    rows[1].feed = span_of("activity");
    rows[2].workspace = span_of("w2");
    rows[3].recipient = span_of("u2");
    rows[4].sort = span_of("id");
    rows[5].contract = span_of("boundary");
    rows[6].export_id = span_of("1");
    rows[7] = base(category, 1);
    rows[8] = base(value, 1);
    rows[9] = base(glued, 1);
    rows[10] = base(empty, 1);
    rows[11] = base(none_like, 1);
    rows[12].workspace = span_of("wu"); /* the border moves */
    rows[12].recipient = span_of("");
    rows[13].workspace = span_of("");
    rows[13].recipient = span_of("wu");
    rows[14].workspace = span_of("W");
    rows[15].workspace = span_of("w ");
    for (int i = 0; i < 16; i++) {
        for (int k = 0; k < i; k++)
            cr_assert_neq(fingerprint_of(&rows[i]), fingerprint_of(&rows[k]), "%d and %d", i, k);
    }
}
