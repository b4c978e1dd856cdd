/* io/db against a real Postgres: values as they were, several in flight, loss and return, what is refused. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/db.h"
#include "store/schema.h"
#include "store_fixture.h"

static struct db *open_as(struct world *w, const char *user, enum db_role role, bool prepared)
{
    struct db_settings settings = {.uri = user == NULL ? w->uri : world_role_uri(w, user),
                                   .application_name = "db_test",
                                   .role = role,
                                   .prepared_statements = prepared};
    struct db *db = NULL;
    struct fault fault;
    fault_reset(&fault);
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK, "%s: %s", fault.code, fault.text);
    return db;
}

static const struct db_statement values = {
    "values", "SELECT $1::text, $2::int4, $3::int8, $4::bool, $5::bytea, $6::timestamptz, $7::uuid, $8::json,"
              " $9::jsonb, $10::int8, $11::text, array_to_string($12::text[], ',', 'null'),"
              " ($13::int8[])[2] IS NULL, cardinality($14::uuid[]), ($15::timestamptz[])[1],"
              " ($16::bool[])[2], ($17::bytea[])[1], ($18::json[])[1], ($19::int4[])[3], ($20::jsonb[])[1]"};

static const unsigned char uuid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255};

static void add_scalars(struct db_params *params)
{
    db_params_text(params, span_of("t\xc3\xa9xt"));
    db_params_int4(params, INT32_MIN);
    db_params_int8(params, INT64_MIN);
    db_params_bool(params, true);
    db_params_bytea(params, (struct span){"\0\xff\\", 3});
    db_params_time(params, 1774137599999999);
    db_params_uuid(params, uuid);
    db_params_json(params, span_of("{\"a\" :  0.1}"));
    db_params_jsonb(params, span_of("{\"a\" :  0.1}"));
    db_params_null(params, DB_INT8);
    db_params_text(params, span_of(""));
}

static void add_arrays(struct db_params *params)
{
    db_params_begin(params, DB_TEXT);
    db_params_text(params, span_of("a"));
    db_params_text(params, (struct span){NULL, 0});
    db_params_text(params, span_of("b"));
    db_params_end(params);
    db_params_begin(params, DB_INT8);
    db_params_int8(params, 1);
    db_params_null(params, DB_INT8);
    db_params_end(params);
    db_params_begin(params, DB_UUID);
    db_params_end(params);
    db_params_begin(params, DB_TIME);
    db_params_time(params, -1);
    db_params_end(params);
    db_params_begin(params, DB_BOOL);
    db_params_bool(params, false);
    db_params_bool(params, true);
    db_params_end(params);
    db_params_begin(params, DB_BYTEA);
    db_params_bytea(params, (struct span){"\1\2", 2});
    db_params_end(params);
    db_params_begin(params, DB_JSON);
    db_params_json(params, span_of("[ 1 ]"));
    db_params_end(params);
    db_params_begin(params, DB_INT4);
    for (int i = 7; i < 10; i++)
        db_params_int4(params, i);
    db_params_end(params);
    db_params_begin(params, DB_JSONB);
    db_params_jsonb(params, span_of("[ 1 ]"));
    db_params_end(params);
}

static void check_values(struct db *db)
{
    struct db_params params;
    db_params_init(&params, 10000);
    add_scalars(&params);
    add_arrays(&params);
    struct db_result *r = NULL;
    struct fault fault;
    fault_reset(&fault);
    cr_assert_eq(db_run(db, &values, &params, &r, &fault), ST_OK, "%s %s", fault.code, fault.text);
    cr_assert_eq(db_result_rows(r), 1);
    cr_assert(span_is(db_result_text(r, 0, 0), "t\xc3\xa9xt"));
    cr_assert_eq(db_result_int4(r, 0, 1), INT32_MIN);
    cr_assert_eq(db_result_int8(r, 0, 2), INT64_MIN);
    cr_assert(db_result_bool(r, 0, 3));
    cr_assert(span_same(db_result_text(r, 0, 4), (struct span){"\0\xff\\", 3}));
    cr_assert_eq(db_result_time(r, 0, 5), 1774137599999999);
    cr_assert(memcmp(db_result_uuid(r, 0, 6), uuid, 16) == 0);
    cr_assert(span_is(db_result_text(r, 0, 7), "{\"a\" :  0.1}"));
    cr_assert(db_result_is_null(r, 0, 9));
    cr_assert_eq(db_result_int8(r, 0, 9), 0);
    cr_assert(!db_result_is_null(r, 0, 10));
    cr_assert_eq(db_result_text(r, 0, 10).bytes, 0);
    cr_assert(span_is(db_result_text(r, 0, 11), "a,null,b"));
    cr_assert(db_result_bool(r, 0, 12));
    cr_assert_eq(db_result_int4(r, 0, 13), 0);
    cr_assert_eq(db_result_time(r, 0, 14), -1);
    cr_assert(db_result_bool(r, 0, 15));
    cr_assert_eq(db_result_text(r, 0, 16).bytes, 2);
    cr_assert(span_is(db_result_text(r, 0, 17), "[ 1 ]"));
    cr_assert_eq(db_result_int4(r, 0, 18), 9);
    db_result_free(r);
    db_params_done(&params);
}

Test(db, values_come_back_as_they_were)
{
    struct world w;
    world_open(&w, "db_values");
    world_database(&w);
    for (int prepared = 0; prepared < 2; prepared++) {
        struct db *db = open_as(&w, "belfry_dispatcher", DB_ROLE_DISPATCHER, prepared == 1);
        check_values(db);
        check_values(db); /* prepared once, run twice */
        db_close(db);
    }
    world_close(&w);
}

static const struct db_statement one = {"one", "SELECT $1::int8"};
static const struct db_statement nap = {"nap", "SELECT $1::int8 FROM pg_sleep(0.3)"};
static const struct db_statement broken = {"broken", "SELECT 1 / ($1::int8 - $1::int8)"};
static const struct db_statement missing = {"missing", "SELECT * FROM not_there WHERE id = $1::int8"};

static void send_one(struct db *db, const struct db_statement *statement, uint64_t tag)
{
    struct db_params params;
    struct fault fault;
    db_params_init(&params, 100);
    db_params_int8(&params, (int64_t)tag);
    cr_assert_eq(db_send(db, statement, &params, tag, &fault), ST_OK, "%s", fault.text);
    db_params_done(&params);
}

static void take_one(struct db *db, uint64_t tag, enum status status, const char *code)
{
    struct db_answer answer;
    cr_assert(db_wait(db, 5000));
    cr_assert(db_take(db, &answer));
    cr_assert_eq(answer.tag, tag);
    cr_assert_eq(answer.status, status, "%s %s", answer.fault.code, answer.fault.text);
    if (status == ST_OK)
        cr_assert_eq(db_result_int8(answer.result, 0, 0), (int64_t)tag);
    else
        cr_assert_str_eq(answer.fault.code, code);
    db_result_free(answer.result);
}

/* Answers in the order sent; a failure is its own request's only. */
Test(db, several_in_flight)
{
    struct world w;
    world_open(&w, "db_flight");
    world_database(&w);
    for (int prepared = 0; prepared < 2; prepared++) {
        struct db *db = open_as(&w, "belfry_reader", DB_ROLE_READER, prepared == 1);
        send_one(db, &nap, 1);
        struct db_answer answer;
        cr_assert(!db_take(db, &answer));
        cr_assert(!db_wait(db, 10));
        send_one(db, &one, 2);
        send_one(db, &broken, 3);
        send_one(db, &one, 4);
        send_one(db, &missing, 5);
        send_one(db, &missing, 6);
        send_one(db, &one, 7);
        cr_assert_eq(db_in_flight(db), 7);
        take_one(db, 1, ST_OK, "");
        take_one(db, 2, ST_OK, "");
        take_one(db, 3, ST_REJECT, "22012");
        take_one(db, 4, ST_OK, "");
        take_one(db, 5, ST_STOP, "42P01");
        cr_assert(db_wait(db, 5000) && db_take(db, &answer)); /* prepared: what it was prepared by failed */
        cr_assert_neq(answer.status, ST_OK);
        take_one(db, 7, ST_OK, "");
        for (uint64_t i = 0; i < DB_IN_FLIGHT_MAX && db_is_up(db); i++) {
            struct db_params params;
            struct fault fault;
            db_params_init(&params, 100);
            db_params_int8(&params, (int64_t)i);
            if (db_send(db, &one, &params, i, &fault) != ST_OK)
                cr_assert_str_eq(fault.code, "08006"); /* a lost statement asks for a new connection */
            db_params_done(&params);
        }
        db_close(db); /* with many in flight */
    }
    world_close(&w);
}

static const struct db_statement began = {"began",
                                          "SELECT $1::int8, (extract(epoch FROM now()) * 1e6)::int8"};

static void join_one(struct db *db, const struct db_statement *statement, uint64_t tag)
{
    struct db_params params;
    struct fault fault;
    db_params_init(&params, 100);
    db_params_int8(&params, (int64_t)tag);
    cr_assert_eq(db_send_joined(db, statement, &params, tag, &fault), ST_OK, "%s", fault.text);
    db_params_done(&params);
}

/* Takes the answer with this tag; when its transaction began. */
static int64_t take_began(struct db *db, uint64_t tag)
{
    struct db_answer answer;
    cr_assert(db_wait(db, 5000) && db_take(db, &answer));
    cr_assert_eq(answer.tag, tag);
    cr_assert_eq(answer.status, ST_OK, "%s", answer.fault.text);
    int64_t us = db_result_int8(answer.result, 0, 1);
    db_result_free(answer.result);
    return us;
}

static void check_joined(struct db *db)
{
    /* DB_JOINED_MAX to a transaction, none with what is sent alone, nor with what is to be prepared. */
    int64_t at[DB_JOINED_MAX + 3];
    send_one(db, &began, 99);
    (void)take_began(db, 99);
    for (uint64_t i = 0; i < DB_JOINED_MAX + 2; i++)
        join_one(db, &began, i);
    cr_assert(db_joins(db));
    send_one(db, &began, DB_JOINED_MAX + 2);
    cr_assert(!db_joins(db));
    for (uint64_t i = 0; i < DB_JOINED_MAX + 3; i++)
        at[i] = take_began(db, i);
    for (int i = 0; i < DB_JOINED_MAX; i++)
        cr_expect_eq(at[i], at[0], "number %d of a transaction of %d", i, DB_JOINED_MAX);
    cr_expect_gt(at[DB_JOINED_MAX], at[0]);
    cr_expect_eq(at[DB_JOINED_MAX + 1], at[DB_JOINED_MAX]);
    cr_expect_gt(at[DB_JOINED_MAX + 2], at[DB_JOINED_MAX]);
    /* What fails takes along what stands behind it in the transaction, and nothing else. */
    send_one(db, &one, 1);
    send_one(db, &broken, 2);
    take_one(db, 1, ST_OK, "");
    take_one(db, 2, ST_REJECT, "22012");
    join_one(db, &one, 3);
    join_one(db, &broken, 4);
    join_one(db, &one, 5);
    join_one(db, &one, 6);
    join_one(db, &one, 7);
    db_release(db);
    cr_assert_eq(db_in_flight(db), 5);
    take_one(db, 3, ST_OK, "");
    take_one(db, 4, ST_REJECT, "22012");
    take_one(db, 5, ST_RETRY, DB_JOINED);
    take_one(db, 6, ST_RETRY, DB_JOINED);
    take_one(db, 7, ST_OK, "");
}

/* Small reads share a transaction, and each has its own fate and its own statement_timeout. */
Test(db, joined_reads)
{
    struct world w;
    world_open(&w, "db_joined");
    world_database(&w);
    for (int prepared = 0; prepared < 2; prepared++) {
        struct db *db = open_as(&w, "belfry_reader", DB_ROLE_READER, prepared == 1);
        check_joined(db);
        db_close(db);
    }
    world_exec(&w, "ALTER ROLE belfry_reader IN DATABASE %s SET statement_timeout = '500ms'", w.database);
    struct db *db = open_as(&w, "belfry_reader", DB_ROLE_READER, true);
    send_one(db, &nap, 1);
    take_one(db, 1, ST_OK, "");
    join_one(db, &nap, 2);
    join_one(db, &nap, 3);
    take_one(db, 2, ST_OK, "");
    take_one(db, 3, ST_OK, "");
    send_one(db, &one, 9);
    take_one(db, 9, ST_OK, "");
    join_one(db, &one, 4); /* held back, and answered all the same */
    world_exec(&w, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = "
                   "'db_test' AND datname = current_database()");
    take_one(db, 4, ST_RETRY, "57P01");
    db_close(db);
    world_close(&w);
}

Test(db, lost_connections_answer_and_come_back)
{
    struct world w;
    world_open(&w, "db_lost");
    world_database(&w);
    struct db *db = open_as(&w, "belfry_dispatcher", DB_ROLE_DISPATCHER, true);
    struct fault fault;
    struct db_answer answer;
    for (int idle = 0; idle < 2; idle++) {
        if (!idle) {
            send_one(db, &nap, 1);
            send_one(db, &one, 2);
            (void)db_wait(db, 50);
        }
        world_exec(&w, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE "
                       "application_name = 'db_test'"
                       " AND datname = current_database()");
        if (idle) {
            /* The server's last words first, then the end of the stream. */
            for (int i = 0; i < 100 && db_is_up(db); i++) {
                struct pollfd ready = {.fd = db_fd(db), .events = db_events(db)};
                (void)poll(&ready, 1, 100);
                db_pump(db);
            }
        } else {
            for (uint64_t tag = 1; tag <= 2; tag++) {
                while (!db_take(db, &answer))
                    (void)db_wait(db, 1000);
                cr_assert_eq(answer.tag, tag);
                cr_assert_eq(answer.status, ST_RETRY, "%s", answer.fault.text);
            }
        }
        cr_assert(!db_is_up(db));
        cr_assert_eq(db_fd(db), -1);
        cr_assert_eq(db_why(db, &fault), ST_RETRY);
        cr_assert_eq(db_run(db, &one, NULL, NULL, &fault), ST_RETRY);
        cr_assert_str_eq(fault.code, "08006");
        cr_assert_eq(db_connect(db, &fault), ST_OK, "%s", fault.text);
        send_one(db, &one, 9);
        take_one(db, 9, ST_OK, "");
    }
    /* Without blocking. */
    db_connect_begin(db);
    cr_assert_eq(db_state(db), DB_CONNECTING);
    cr_assert(!db_wait(db, 5000));
    cr_assert(db_is_up(db));
    send_one(db, &one, 10);
    take_one(db, 10, ST_OK, "");
    db_close(db);
    world_close(&w);
}

/* A server that takes the connection and never says a word, and one that falls silent in mid-answer. */
Test(db, silence_has_an_end)
{
    struct world w;
    world_open(&w, "db_silent");
    world_database(&w);
    int port = world_free_port();
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(listener, 5), 0);
    char uri[128];
    snprintf(uri, sizeof uri, "postgresql://u@127.0.0.1:%d/x", port);
    struct db_settings settings = {.uri = uri, .application_name = "db_test", .connect_timeout_ms = 500};
    struct db *db = NULL;
    struct fault fault;
    int64_t began_ms = world_now_ms();
    cr_assert_eq(db_open(&settings, &db, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "08006");
    cr_assert_lt(world_now_ms() - began_ms, 4000);
    close(listener);

    settings.uri = w.uri;
    settings.answer_timeout_ms = 300;
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK);
    static const struct db_statement sleep = {"sleep", "SELECT pg_sleep(20)"};
    began_ms = world_now_ms();
    cr_assert_eq(db_run(db, &sleep, NULL, NULL, &fault), ST_RETRY);
    cr_assert_str_eq(fault.code, "08006");
    cr_assert(strstr(fault.text, "no answer within 300 ms") != NULL, "%s", fault.text);
    cr_assert_lt(world_now_ms() - began_ms, 5000);
    cr_assert(!db_is_up(db));
    db_close(db);
    world_close(&w);
}

static void expect_refusal(const char *uri, enum db_role role, enum status status, const char *code,
                           const char *text)
{
    struct db_settings settings = {
        .uri = uri, .application_name = "db_test", .role = role, .connect_timeout_ms = 2000};
    struct db *db = NULL;
    struct fault fault;
    fault_reset(&fault);
    enum status got = db_open(&settings, &db, &fault);
    cr_assert_eq(got, status, "%s: %s: %s", status_name(got), fault.code, fault.text);
    cr_assert(db == NULL);
    cr_assert_str_eq(fault.code, code, "%s: %s", fault.code, fault.text);
    cr_assert(strstr(fault.text, text) != NULL, "%s", fault.text);
    printf("refused: %s\n", fault.text);
}

/* OPS-07: libpq quotes what it cannot read, and a password with '@', '/' or '%' in it is read amiss. */
Test(db, a_password_that_is_read_amiss_is_not_said)
{
    static const char *const uris[] = {
        "postgresql://u:p%zzs3cret@127.0.0.1/x", "postgresql://u:p@s3cret@127.0.0.1:1/x",
        "postgresql://u:s3cret/x@127.0.0.1/x",   "postgresql://u:12/s3cret@127.0.0.1/x",
        "postgresql://u@127.0.0.1/x?s3cret",     "host=127.0.0.1 password=a s3cret dbname=x",
        "host=127.0.0.1 password='s3cret",
    };
    for (size_t i = 0; i < sizeof uris / sizeof uris[0]; i++) {
        struct db_settings settings = {
            .uri = uris[i], .application_name = "db_test", .connect_timeout_ms = 500};
        struct db *db = NULL;
        struct fault fault;
        fault_reset(&fault);
        cr_expect_eq(db_open(&settings, &db, &fault), ST_STOP, "%s", uris[i]);
        cr_expect(strstr(fault.text, "s3cret") == NULL, "%s", fault.text);
        cr_expect_str_eq(fault.code, "uri");
    }
}

Test(db, what_is_wrong_is_named)
{
    struct world w;
    world_open(&w, "db_refuse");
    world_database(&w);
    char uri[512];
    expect_refusal(w.uri, DB_ROLE_DISPATCHER, ST_STOP, "setting", "lock_timeout is 0, needs at most 5s");
    expect_refusal(w.uri, DB_ROLE_READER, ST_STOP, "setting",
                   "ALTER ROLE \"postgres\" SET statement_timeout");
    expect_refusal(world_role_uri(&w, "belfry_reader"), DB_ROLE_RECONCILER, ST_STOP, "setting",
                   "lock_timeout");
    snprintf(uri, sizeof uri, "%s?options=-csynchronous_commit%%3Doff",
             world_role_uri(&w, "belfry_dispatcher"));
    expect_refusal(uri, DB_ROLE_DISPATCHER, ST_STOP, "setting", "synchronous_commit is off, needs on");
    snprintf(uri, sizeof uri, "%s?options=-cjit%%3Don", world_role_uri(&w, "belfry_dispatcher"));
    expect_refusal(uri, DB_ROLE_DISPATCHER, ST_STOP, "setting", "jit is on, needs off");
    snprintf(uri, sizeof uri, "%s?options=-cstatement_timeout%%3D1min",
             world_role_uri(&w, "belfry_dispatcher"));
    expect_refusal(uri, DB_ROLE_DISPATCHER, ST_STOP, "setting",
                   "statement_timeout is 1min, needs at most 20s");
    /* A role with the settings and without the membership would move settled.bound past open writers. */
    snprintf(uri, sizeof uri, "%s?options=-cjit%%3Doff", world_role_uri(&w, "belfry_dispatcher"));
    expect_refusal(uri, DB_ROLE_RECONCILER, ST_STOP, "setting",
                   "GRANT pg_read_all_stats TO \"belfry_dispatcher\"");
    snprintf(uri, sizeof uri, "%s_not_there", w.uri);
    expect_refusal(uri, DB_ROLE_ANY, ST_STOP, "3D000", "does not exist");
    expect_refusal(world_role_uri(&w, "nobody_of_that_name"), DB_ROLE_ANY, ST_STOP, "28000",
                   "does not exist");
    expect_refusal("postgresql://u:s3cret@127.0.0.1:1/x", DB_ROLE_ANY, ST_RETRY, "08006", "refused");
    world_exec(&w, "CREATE DATABASE %s_latin ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0", w.database);
    snprintf(uri, sizeof uri, "%s_latin", w.uri);
    expect_refusal(uri, DB_ROLE_ANY, ST_STOP, "setting", "server_encoding is SQL_ASCII, needs UTF8");
    world_exec(&w, "DROP DATABASE %s_latin", w.database);
    world_close(&w);
}

/* 57014 by the role's own timeout; with patience the same statement ends, and the next has the old limit.
 */
Test(db, patience_gives_one_statement_more_time)
{
    struct world w;
    world_open(&w, "db_patience");
    world_database(&w);
    char uri[512];
    snprintf(uri, sizeof uri, "%s?options=-cstatement_timeout%%3D150ms",
             world_role_uri(&w, "belfry_dispatcher"));
    struct db_settings settings = {
        .uri = uri, .application_name = "db_test", .role = DB_ROLE_DISPATCHER, .prepared_statements = true};
    struct db *db = NULL;
    struct fault fault;
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK);
    send_one(db, &nap, 1);
    take_one(db, 1, ST_REJECT, "57014");
    db_patience(db, 2000);
    send_one(db, &nap, 2);
    take_one(db, 2, ST_OK, "");
    send_one(db, &broken, 3); /* the block it stands in is left behind */
    take_one(db, 3, ST_REJECT, "22012");
    send_one(db, &one, 4);
    take_one(db, 4, ST_OK, "");
    db_patience(db, 0);
    send_one(db, &nap, 5);
    take_one(db, 5, ST_REJECT, "57014");
    send_one(db, &one, 6);
    take_one(db, 6, ST_OK, "");
    static const struct db_statement write = {"write",
                                              "INSERT INTO erased_users VALUES (int8send($1), now())"};
    db_close(db);
    /* What is done with patience is committed. */
    settings.uri = w.uri;
    settings.role = DB_ROLE_ANY;
    cr_assert_eq(db_open(&settings, &db, &fault), ST_OK);
    db_patience(db, 2000);
    struct db_params params;
    db_params_init(&params, 100);
    db_params_int8(&params, 1);
    cr_assert_eq(db_run(db, &write, &params, NULL, &fault), ST_OK, "%s", fault.text);
    db_params_done(&params);
    cr_assert_eq(world_count(&w, "SELECT count(*) FROM erased_users"), 1);
    db_close(db);
    world_close(&w);
}

Test(db, faults_hold_no_row)
{
    struct world w;
    world_open(&w, "db_fault");
    world_database(&w);
    struct db *db = open_as(&w, NULL, DB_ROLE_ANY, true);
    static const struct db_statement insert = {"insert",
                                               "INSERT INTO device_tokens (token, token_hash, user_id, "
                                               "platform) VALUES ($1, '\\x00', 'u', 'ios')"};
    struct db_params params;
    struct fault fault;
    db_params_init(&params, 1000);
    db_params_text(&params, span_of("s3cret-token"));
    cr_assert_eq(db_run(db, &insert, &params, NULL, &fault), ST_OK);
    cr_assert_eq(db_run(db, &insert, &params, NULL, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "23505");
    cr_assert_str_eq(fault.field, "device_tokens_token_hash_key");
    cr_assert(strstr(fault.text, "s3cret") == NULL && strstr(fault.text, "x00") == NULL, "%s", fault.text);
    /* More than the buffer holds is this item's fault. */
    db_params_reset(&params);
    char big[2000];
    memset(big, 'x', sizeof big);
    db_params_text(&params, (struct span){big, sizeof big});
    cr_assert_eq(db_run(db, &insert, &params, NULL, &fault), ST_REJECT);
    cr_assert_str_eq(fault.code, "params_too_big");
    db_params_done(&params);
    db_close(db);
    world_close(&w);
}

Test(db, a_schema_it_cannot_use)
{
    struct world w;
    world_open(&w, "db_schema");
    world_database(&w);
    struct db *db = open_as(&w, "belfry_reader", DB_ROLE_READER, true);
    struct fault fault;
    cr_assert_eq(store_check_schema(db, &fault), ST_OK);
    world_exec(&w, "INSERT INTO schema_version VALUES (1000, %d)", STORE_SCHEMA_VERSION);
    cr_assert_eq(store_check_schema(db, &fault), ST_OK); /* newer, and it says we may */
    world_exec(&w, "UPDATE schema_version SET oldest_ok = 999 WHERE version = 1000");
    cr_assert_eq(store_check_schema(db, &fault), ST_FATAL);
    cr_assert_eq(fault.exit_code, EXIT_SCHEMA);
    cr_assert(strstr(fault.text, "1000") != NULL && strstr(fault.text, "999") != NULL, "%s", fault.text);
    world_exec(&w, "DELETE FROM schema_version WHERE version >= %d", STORE_SCHEMA_VERSION);
    cr_assert_eq(store_check_schema(db, &fault), ST_FATAL);
    cr_assert_eq(fault.exit_code, EXIT_SCHEMA);
    printf("schema: %s\n", fault.text);
    world_exec(&w, "DROP TABLE schema_version");
    cr_assert_eq(store_check_schema(db, &fault), ST_FATAL);
    cr_assert_eq(fault.exit_code, EXIT_SCHEMA);
    printf("schema: %s\n", fault.text);
    db_close(db);
    world_close(&w);
}
