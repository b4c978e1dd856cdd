/* design.md §1 point 5, row by row. */
#include <criterion/criterion.h>
#include <string.h>

#include "io/db.h"

struct row {
    char sqlstate[8], constraint[24];
    enum status status;
    int alarm;
};

static const struct row rows[] = {
    /* split */
    {"22021", "", ST_REJECT, 0},
    {"22P05", "", ST_REJECT, 0},
    {"23514", "no_poison", ST_REJECT, 0},
    {"23502", "", ST_REJECT, 0},
    {"23505", "", ST_REJECT, 0},
    {"23505", "somebody_elses_key", ST_REJECT, 0},
    {"21000", "", ST_REJECT, 0},
    {"54000", "", ST_REJECT, 0},
    {"54001", "", ST_REJECT, 0},
    {"53200", "", ST_REJECT, 0},
    {"57014", "", ST_REJECT, 0},
    /* retry */
    {"08000", "", ST_RETRY, 0},
    {"08003", "", ST_RETRY, 0},
    {"08006", "", ST_RETRY, 0},
    {"40001", "", ST_RETRY, 0},
    {"40P01", "", ST_RETRY, 0},
    {"53000", "", ST_RETRY, 0},
    {"53100", "", ST_RETRY, 0},
    {"53300", "", ST_RETRY, 0},
    {"55P03", "", ST_RETRY, 0},
    {"57P01", "", ST_RETRY, 0},
    {"57P02", "", ST_RETRY, 0},
    {"57P03", "", ST_RETRY, 0},
    {"57P05", "", ST_RETRY, 0},
    {"25006", "", ST_RETRY, 0},
    {"25P02", "", ST_RETRY, 0},
    {"58030", "", ST_RETRY, 0},
    /* stop */
    {"42P01", "", ST_STOP, 0},
    {"42501", "", ST_STOP, 0},
    {"42703", "", ST_STOP, 0},
    {"28000", "", ST_STOP, 0},
    {"28P01", "", ST_STOP, 0},
    {"3D000", "", ST_STOP, 0},
    {"3F000", "", ST_STOP, 0},
    {"0A000", "", ST_STOP, 0},
    {"XX000", "", ST_STOP, 0},
    {"XX001", "", ST_STOP, 0},
    {"23505", "notifications_pkey", ST_STOP, 0},
    {"23505", "dispatches_pkey", ST_STOP, 0},
    {"23505", "batches_pkey", ST_STOP, 0},
    {"23505", "device_tokens_pkey", ST_STOP, 0},
    /* anything else: again, and an alarm */
    {"57000", "", ST_RETRY, 1},
    {"57P", "", ST_RETRY, 0},
    {"26000", "", ST_RETRY, 1},
    {"P0001", "", ST_RETRY, 1},
    {"HV000", "", ST_RETRY, 1},
    {"F0000", "", ST_RETRY, 1},
    {"00000", "", ST_RETRY, 1},
    {"", "", ST_RETRY, 1},
};

Test(db_judge, row_by_row)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool alarm = rows[i].alarm == 0;
        enum status status = db_judge(rows[i].sqlstate, rows[i].constraint, &alarm);
        cr_expect_eq(status, rows[i].status, "%s %s: %s", rows[i].sqlstate, rows[i].constraint,
                     status_name(status));
        cr_expect_eq(alarm, rows[i].alarm != 0, "%s: alarm", rows[i].sqlstate);
    }
    cr_expect_eq(db_judge("23505", NULL, NULL), ST_REJECT);
}

static unsigned wire_u32(const struct db_params *params, size_t at)
{
    const unsigned char *b = (const unsigned char *)params->bytes.at + at;
    return (unsigned)b[0] << 24 | (unsigned)b[1] << 16 | (unsigned)b[2] << 8 | b[3];
}

Test(db_params, array_header_nulls_and_count)
{
    struct db_params params;
    db_params_init(&params, 1000);
    db_params_text(&params, span_of("first"));
    db_params_begin(&params, DB_TEXT);
    db_params_text(&params, span_of("a"));
    db_params_text(&params, (struct span){NULL, 0});
    db_params_text(&params, span_of(""));
    db_params_end(&params);
    db_params_null(&params, DB_INT8);
    cr_assert_eq(params.count, 3);
    cr_assert_eq(params.types[0], 25);
    cr_assert_eq(params.types[1], 1009);
    cr_assert_eq(params.lengths[0], 5);
    cr_assert_eq(params.lengths[1], 20 + 5 + 4 + 4);
    cr_assert_eq(params.lengths[2], -1);
    size_t at = params.starts[1];
    cr_assert_eq(wire_u32(&params, at), 1);      /* dimensions */
    cr_assert_eq(wire_u32(&params, at + 4), 1);  /* has nulls */
    cr_assert_eq(wire_u32(&params, at + 8), 25); /* of text */
    cr_assert_eq(wire_u32(&params, at + 12), 3); /* elements */
    cr_assert_eq(wire_u32(&params, at + 16), 1); /* from 1 */
    cr_assert_eq(wire_u32(&params, at + 20), 1); /* "a" */
    cr_assert_eq(wire_u32(&params, at + 25), UINT32_MAX);
    cr_assert_eq(wire_u32(&params, at + 29), 0);
    db_params_done(&params);
}

Test(db_params, limits_mark_the_whole)
{
    struct db_params params;
    db_params_init(&params, 40);
    db_params_begin(&params, DB_INT8);
    db_params_int8(&params, 1);
    db_params_int8(&params, 2); /* 20 + 12 + 12 */
    db_params_end(&params);
    cr_assert(params.bytes.failed);
    db_params_reset(&params);
    for (int i = 0; i <= DB_PARAMS_MAX; i++)
        db_params_null(&params, DB_TEXT);
    cr_assert(params.failed);
    cr_assert_eq(params.count, DB_PARAMS_MAX);
    db_params_done(&params);
}
