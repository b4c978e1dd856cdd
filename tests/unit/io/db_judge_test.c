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

/* The same bytes as the adders', for every type. */
Test(db_params, column_is_one_member_of_every_row)
{
    static const struct {
        unsigned char id[DB_UUID_BYTES];
        int64_t number, time;
        struct span text;
        int32_t small;
        bool flag;
    } rows[2] = {{{1, 2}, INT64_MIN, -1, {NULL, 0}, -7, true}, {{3}, 1, 2, {"{}", 2}, 7, false}};
    struct db_rows of = {rows, 2, sizeof rows[0]};
    struct db_params by_column, by_adder;
    db_params_init(&by_column, 4000);
    db_params_init(&by_adder, 4000);
#define COMPARE(type, adder, member)                                                                         \
    db_params_column(&by_column, type, &of, (size_t)((const char *)&rows[0].member - (const char *)rows));   \
    db_params_begin(&by_adder, type);                                                                        \
    for (size_t i = 0; i < 2; i++)                                                                           \
        adder(&by_adder, rows[i].member);                                                                    \
    db_params_end(&by_adder)
    COMPARE(DB_TEXT, db_params_text, text);
    COMPARE(DB_INT4, db_params_int4, small);
    COMPARE(DB_INT8, db_params_int8, number);
    COMPARE(DB_BOOL, db_params_bool, flag);
    COMPARE(DB_BYTEA, db_params_bytea, text);
    COMPARE(DB_TIME, db_params_time, time);
    COMPARE(DB_UUID, db_params_uuid, id);
    COMPARE(DB_JSON, db_params_json, text);
    COMPARE(DB_JSONB, db_params_jsonb, text);
#undef COMPARE
    cr_assert_eq(by_column.count, DB_TYPES);
    cr_assert_eq(by_column.count, by_adder.count);
    cr_assert_arr_eq(by_column.types, by_adder.types, DB_TYPES * sizeof by_adder.types[0]);
    cr_assert_arr_eq(by_column.lengths, by_adder.lengths, DB_TYPES * sizeof by_adder.lengths[0]);
    cr_assert_eq(by_column.bytes.bytes, by_adder.bytes.bytes);
    cr_assert_arr_eq(by_column.bytes.at, by_adder.bytes.at, by_adder.bytes.bytes);
    db_params_done(&by_column);
    db_params_done(&by_adder);
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
