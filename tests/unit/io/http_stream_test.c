/* Streams over real sockets: whole, cut, left, and read slowly. What is streamed is a known row of bytes, so
 * that each byte the client gets is compared. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buffer.h"
#include "http_pump.h"

enum { MIB = 1024 * 1024, READ_MAX = 4 * MIB, PIECE_BYTES = 3001 };

struct world {
    struct http_server *server;
    struct http_stream *stream;
    size_t written, total; /* of the stream; at total it ends */
    bool cuts;             /* instead of ending */
    bool waits;            /* writes nothing by itself */
    int rooms, gone, finished;
    struct http_exchange last;
};

/* 251 is prime: no chunk's length fits it. */
static char byte_at(size_t place)
{
    return (char)('!' + (place % 251) % 90);
}

static void write_on(struct world *world)
{
    char piece[PIECE_BYTES];
    while (world->written < world->total) {
        size_t bytes =
            world->total - world->written < sizeof piece ? world->total - world->written : sizeof piece;
        for (size_t i = 0; i < bytes; i++)
            piece[i] = byte_at(world->written + i);
        size_t taken = http_stream_write(world->stream, (struct span){piece, bytes});
        world->written += taken;
        if (taken < bytes)
            return;
    }
    if (world->cuts)
        http_stream_cut(world->stream);
    else
        http_stream_end(world->stream);
    world->stream = NULL;
}

static void on_room(void *context, struct http_stream *stream)
{
    struct world *world = context;
    cr_assert_eq(world->stream, stream);
    world->rooms++;
    write_on(world);
}

static void on_gone(void *context, struct http_stream *stream)
{
    struct world *world = context;
    cr_assert_eq(world->stream, stream);
    world->stream = NULL;
    world->gone++;
}

static void handle(void *context, struct http_request *request)
{
    struct world *world = context;
    const struct http_stream_handler handler = {.room = on_room, .gone = on_gone, .context = world};
    static const struct http_field fields[] = {{"X-Rows", "9"}};
    const struct http_reply reply = {
        .status = 200, .content_type = "text/csv", .fields = fields, .field_count = 1};
    if (span_is(http_request_path(request), "/short")) {
        http_request_reply(request, &(const struct http_reply){.status = 200, .body = {"short", 5}});
        return;
    }
    world->written = 0;
    world->stream = http_request_stream(request, &reply, &handler);
    if (world->stream != NULL && !world->waits)
        write_on(world);
}

static void finished(void *context, const struct http_exchange *exchange)
{
    struct world *world = context;
    world->last = *exchange;
    world->finished++;
}

static void world_open(struct world *world, size_t total, bool gzip)
{
    struct fault fault;
    *world = (struct world){.total = total};
    const struct http_server_options options = {.listen = {.host = "127.0.0.1"},
                                                .connections_max = 8,
                                                .handler = {handle, finished, world, NULL},
                                                .clock = shifted_clock(),
                                                .gzip = gzip};
    cr_assert_eq(http_server_open(&options, &world->server, &fault), ST_OK, "%s", fault.text);
}

static int ask_with(struct world *world, const char *request, int receive_bytes)
{
    int fd = dial_server_with(world->server, receive_bytes);
    for (int i = 0; i < 3; i++)
        pump_server(world->server, 2);
    cr_assert_gt(send(fd, request, strlen(request), MSG_NOSIGNAL), 0);
    return fd;
}

static int ask(struct world *world, const char *request)
{
    return ask_with(world, request, 0);
}

/* What the client got of its connection. */
struct got {
    struct buffer wire, body;
    bool ended;  /* the final chunk came */
    bool closed; /* by the server */
};

static void got_done(struct got *got)
{
    buffer_done(&got->wire);
    buffer_done(&got->body);
}

/* The chunks of one reply into got->body. */
static void unchunk(struct got *got)
{
    const char *wire = got->wire.at == NULL ? "" : got->wire.at;
    const char *at = strstr(wire, "\r\n\r\n");
    if (at == NULL || strstr(wire, "Transfer-Encoding: chunked\r\n") == NULL)
        return;
    at += 4;
    for (const char *end = got->wire.at + got->wire.bytes; at < end;) {
        char *behind;
        unsigned long bytes = strtoul(at, &behind, 16);
        if (behind + 2 > end || (bytes > 0 && (size_t)(end - behind) < bytes + 4))
            return;
        cr_assert_eq(memcmp(behind, "\r\n", 2), 0);
        if (bytes == 0) {
            got->ended = true;
            return;
        }
        buffer_add(&got->body, behind + 2, bytes);
        at = behind + 2 + bytes + 2;
    }
}

/* Reads until the final chunk, the end of the connection, or bytes_max of the wire. */
static void read_on(struct world *world, int fd, size_t bytes_max, struct got *got)
{
    static char piece[256 * 1024];
    buffer_init(&got->wire, READ_MAX);
    buffer_init(&got->body, READ_MAX);
    got->ended = got->closed = false;
    for (int quiet = 0; quiet < 100 && !got->closed && got->wire.bytes < bytes_max;) {
        pump_server(world->server, 2);
        ssize_t count = recv(fd, piece, sizeof piece, 0);
        quiet = count > 0 ? 0 : quiet + 1;
        if (count > 0)
            buffer_add(&got->wire, piece, (size_t)count);
        /* A reset too: the server left bytes of ours unread. */
        got->closed = count == 0 || (count < 0 && errno != EAGAIN);
        if (got->wire.bytes >= 5 && memcmp(got->wire.at + got->wire.bytes - 5, "0\r\n\r\n", 5) == 0)
            break;
    }
    unchunk(got);
}

static void expect_bytes(const struct buffer *body, size_t bytes)
{
    cr_assert_eq(body->bytes, bytes);
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(body->at[i], byte_at(i), "byte %zu", i);
}

#define HOST " HTTP/1.1\r\nHost: x\r\n"

Test(http_stream, is_whole_and_the_connection_goes_on)
{
    static const size_t totals[] = {0, 1, HTTP_STREAM_BYTES, HTTP_STREAM_BYTES + 1, 2 * MIB + 7};
    struct world world;
    struct got got;
    world_open(&world, 0, false);
    int fd = dial_server(world.server);
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        static const char request[] = "GET /s" HOST "\r\n";
        pump_server(world.server, 2);
        world.total = totals[i];
        cr_assert_gt(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), 0);
        read_on(&world, fd, READ_MAX, &got);
        cr_expect(got.ended && !got.closed, "%zu bytes", totals[i]);
        cr_expect_not_null(strstr(got.wire.at, "X-Rows: 9\r\n"));
        cr_expect_not_null(strstr(got.wire.at, "Content-Type: text/csv\r\n"));
        expect_bytes(&got.body, totals[i]);
        got_done(&got);
        pump_server(world.server, 2);
        cr_expect(world.last.complete && world.last.stream && world.last.status == 200 &&
                  world.last.body_bytes == totals[i]);
        cr_expect_eq(http_server_streams(world.server), 0);
    }
    cr_expect_eq(world.gone, 0);
    cr_expect_gt(world.rooms, 0);
    printf("http_stream: %zu bytes in pieces of %d, room was told %d times\n", totals[4], PIECE_BYTES,
           world.rooms);
    close(fd);
    http_server_close(world.server);
}

/* Whatever is to come: no more is taken than the buffer, the library's and the kernel's. */
Test(http_stream, holds_no_more_for_a_client_that_does_not_read)
{
    struct world world;
    world_open(&world, (size_t)1 << 40, false);
    int fd = ask(&world, "GET /s" HOST "\r\n");
    size_t written = 0;
    for (int quiet = 0; quiet < 50; quiet++) {
        pump_server(world.server, 1);
        if (world.written != written)
            quiet = 0;
        written = world.written;
    }
    int rooms = world.rooms, runs = 0;
    for (; runs < 200; runs++) {
        cr_assert_neq(http_server_wait_ms(world.server), 0, "no spinning");
        pump_server(world.server, 1);
    }
    cr_expect_eq(world.written, written, "flat");
    cr_expect_eq(world.rooms, rooms);
    cr_expect_lt(written, (size_t)16 * MIB, "the kernel's buffers of 127.0.0.1 and ours");
    printf("http_stream: a client that does not read: %zu bytes taken, then none in %d runs\n", written,
           runs);
    /* It reads some: as much is taken again. */
    struct got got;
    read_on(&world, fd, 2 * MIB, &got);
    cr_expect_gt(world.written, written);
    cr_expect_geq(got.body.bytes, MIB);
    cr_expect_eq(got.body.at[MIB - 1], byte_at(MIB - 1));
    got_done(&got);
    cr_expect_eq(world.gone, 0);
    close(fd);
    for (int i = 0; i < 100 && world.gone == 0; i++)
        pump_server(world.server, 2);
    cr_expect_eq(world.gone, 1, "and is told when it leaves");
    cr_expect_eq(http_server_streams(world.server), 0);
    cr_expect(world.finished == 1 && !world.last.complete);
    http_server_close(world.server);
}

Test(http_stream, is_cut_without_a_final_chunk)
{
    static const size_t totals[] = {0, 5, 300 * 1024, 2 * MIB};
    for (size_t i = 0; i < sizeof totals / sizeof totals[0]; i++) {
        struct world world;
        struct got got;
        world_open(&world, totals[i], false);
        world.cuts = true;
        int fd = ask(&world, "GET /s" HOST "\r\n");
        read_on(&world, fd, READ_MAX, &got);
        cr_expect(got.closed && !got.ended, "%zu bytes", totals[i]);
        cr_expect_leq(got.body.bytes, totals[i]);
        for (size_t j = 0; j < got.body.bytes; j++)
            cr_assert_eq(got.body.at[j], byte_at(j));
        got_done(&got);
        pump_server(world.server, 2);
        cr_expect(world.gone == 0 && world.finished == 1 && !world.last.complete);
        cr_expect_eq(http_server_connections(world.server), 0);
        close(fd);
        http_server_close(world.server);
    }
}

/* In the middle of what the client does not take: the connection ends at once, not when it reads on. */
Test(http_stream, is_cut_also_while_the_client_takes_nothing)
{
    struct world world;
    world_open(&world, (size_t)1 << 40, false);
    int fd = ask(&world, "GET /s" HOST "\r\n");
    for (int i = 0; i < 100; i++)
        pump_server(world.server, 1);
    cr_assert_not_null(world.stream);
    http_stream_cut(world.stream);
    for (int i = 0; i < 50 && http_server_connections(world.server) > 0; i++)
        pump_server(world.server, 2);
    cr_expect_eq(http_server_connections(world.server), 0);
    cr_expect_eq(world.gone, 0);
    close(fd);
    http_server_close(world.server);
}

/* The library calls it no idler: some bytes now and then. */
Test(http_stream, is_cut_when_the_client_takes_it_too_slowly)
{
    static const size_t takes[] = {500, 20000}; /* bytes a second */
    for (size_t i = 0; i < 2; i++) {
        struct world world;
        static char bytes[20000];
        size_t taken = 0;
        int second = 0;
        world_open(&world, (size_t)1 << 40, false);
        int fd = ask_with(&world, "GET /s" HOST "\r\n", 4096);
        for (; second < 120 && world.gone == 0; second++) {
            clock_shift_ms += 1000;
            for (int j = 0; j < 4; j++) {
                ssize_t count = recv(fd, bytes, takes[i] / 4, 0);
                taken += count > 0 ? (size_t)count : 0;
                pump_server(world.server, 1);
            }
        }
        printf("http_stream: %zu bytes a second: %s after %d s, %zu bytes read\n", takes[i],
               world.gone == 1 ? "cut" : "not cut", second, taken);
        cr_expect_eq(world.gone, takes[i] < HTTP_TAKE_BYTES / 30 ? 1 : 0);
        cr_expect_geq(second, HTTP_TAKE_MS / 1000);
        close(fd);
        http_server_close(world.server);
    }
}

/* A writer that waits for its rows: the client's leaving is seen although nothing is sent. */
Test(http_stream, notices_a_client_that_left_a_quiet_stream)
{
    struct world world;
    struct got got;
    world_open(&world, 0, false);
    world.waits = true;
    int fd = ask(&world, "GET /s" HOST "\r\n");
    read_on(&world, fd, READ_MAX, &got);
    cr_expect(!got.closed && !got.ended && got.body.bytes == 0);
    cr_expect_not_null(strstr(got.wire.at, "HTTP/1.1 200 OK\r\n"), "the head is out before the first byte");
    got_done(&got);
    for (int i = 0; i < 60; i++) {
        clock_shift_ms += 1000;
        pump_server(world.server, 1);
    }
    cr_expect_eq(world.gone, 0, "who waits for the writer is not slow");
    cr_assert_eq(http_stream_write(world.stream, span_of("row\n")), 4);
    read_on(&world, fd, READ_MAX, &got);
    cr_expect_not_null(strstr(got.wire.at, "4\r\nrow\n\r\n"), "%s", got.wire.at);
    got_done(&got);
    close(fd);
    for (int i = 0; i < 50 && world.gone == 0; i++) {
        clock_shift_ms += 250;
        pump_server(world.server, 2);
    }
    cr_expect_eq(world.gone, 1);
    pump_server(world.server, 2);
    cr_expect_eq(http_server_connections(world.server), 0);
    http_server_close(world.server);
}

Test(http_stream, has_no_body_for_head_and_is_not_for_http_1_0)
{
    static const struct {
        const char *request, *text;
    } cases[] = {{"HEAD /s" HOST "\r\n", "HTTP/1.1 200 "},
                 {"GET /s HTTP/1.0\r\n\r\n", " 505 "},
                 {"HEAD /s HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", " 505 "}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world world;
        struct got got;
        world_open(&world, 100, true);
        int fd = ask(&world, cases[i].request);
        read_on(&world, fd, READ_MAX, &got);
        cr_expect_null(world.stream);
        cr_assert_not_null(got.wire.at);
        cr_expect_not_null(strstr(got.wire.at, cases[i].text), "%s", got.wire.at);
        const char *end = strstr(got.wire.at, "\r\n\r\n");
        cr_assert_not_null(end);
        if (cases[i].request[0] == 'H')
            cr_expect_str_eq(end, "\r\n\r\n", "no body, and no final chunk: %s", got.wire.at);
        else
            cr_expect_not_null(strstr(end, "\"code\":\"http_version\""), "%s", end);
        if (i == 0)
            cr_expect_not_null(strstr(got.wire.at, "X-Rows: 9\r\n"));
        cr_expect(got.closed || i == 2, "%s", got.wire.at);
        got_done(&got);
        close(fd);
        http_server_close(world.server);
    }
}

/* Unpacks all of packed; true when it ends as a gzip does. */
static bool unpack(const struct buffer *packed, struct buffer *plain)
{
    z_stream stream = {.next_in = (Bytef *)packed->at, .avail_in = (uInt)packed->bytes};
    static char out[READ_MAX];
    cr_assert_eq(inflateInit2(&stream, 15 + 16), Z_OK);
    stream.next_out = (Bytef *)out;
    stream.avail_out = sizeof out;
    int code = inflate(&stream, Z_SYNC_FLUSH);
    buffer_init(plain, READ_MAX);
    buffer_add(plain, out, sizeof out - stream.avail_out);
    inflateEnd(&stream);
    return code == Z_STREAM_END;
}

Test(http_stream, is_packed_for_who_asks_and_flushed_while_the_writer_waits)
{
    struct world world;
    struct got got;
    struct buffer plain;
    world_open(&world, 3 * MIB, true);
    int fd = ask(&world, "GET /s" HOST "Accept-Encoding: gzip\r\n\r\n");
    read_on(&world, fd, READ_MAX, &got);
    cr_expect_not_null(strstr(got.wire.at, "Content-Encoding: gzip\r\n"));
    cr_expect_not_null(strstr(got.wire.at, "Vary: Accept-Encoding\r\n"));
    cr_expect(got.ended && !got.closed);
    cr_expect(unpack(&got.body, &plain));
    expect_bytes(&plain, 3 * MIB);
    cr_expect_lt(got.body.bytes, 3 * MIB / 4);
    printf("http_stream: %d bytes packed to %zu\n", 3 * MIB, got.body.bytes);
    buffer_done(&plain);
    got_done(&got);
    close(fd);
    /* One row, and the writer waits. */
    world.waits = true;
    fd = ask(&world, "GET /s" HOST "Accept-Encoding: gzip\r\n\r\n");
    for (int i = 0; i < 5; i++)
        pump_server(world.server, 2);
    cr_assert_not_null(world.stream);
    cr_assert_eq(http_stream_write(world.stream, span_of("a row\n")), 6);
    read_on(&world, fd, READ_MAX, &got);
    cr_expect_not(unpack(&got.body, &plain), "no end yet");
    cr_expect(span_is(buffer_span(&plain), "a row\n"), "%.*s", (int)plain.bytes, plain.at);
    buffer_done(&plain);
    got_done(&got);
    http_stream_cut(world.stream);
    close(fd);
    http_server_close(world.server);
}

Test(http_stream, ends_inside_quiesce_and_is_cut_by_close)
{
    struct world world;
    struct got got;
    world_open(&world, 0, false);
    world.waits = true;
    int fd = ask(&world, "GET /s" HOST "\r\n");
    for (int i = 0; i < 10; i++)
        pump_server(world.server, 2);
    cr_assert_not_null(world.stream);
    http_server_quiesce(world.server);
    cr_expect_eq(http_server_streams(world.server), 1);
    cr_assert_eq(http_stream_write(world.stream, span_of("!")), 1);
    http_stream_end(world.stream);
    read_on(&world, fd, READ_MAX, &got);
    cr_expect(got.ended);
    cr_expect_eq(http_server_streams(world.server), 0);
    got_done(&got);
    close(fd);
    http_server_close(world.server);
    cr_expect_eq(world.gone, 0);

    world_open(&world, (size_t)1 << 40, false);
    int reads = ask(&world, "GET /s" HOST "\r\n");
    for (int i = 0; i < 20; i++)
        pump_server(world.server, 2);
    struct world quiet;
    world_open(&quiet, 0, false);
    quiet.waits = true;
    fd = ask(&quiet, "GET /s" HOST "\r\n");
    for (int i = 0; i < 20; i++)
        pump_server(quiet.server, 2);
    http_server_close(quiet.server);
    http_server_close(world.server);
    cr_expect(world.gone == 1 && quiet.gone == 1, "%d %d", world.gone, quiet.gone);
    char rest[4096];
    ssize_t count = recv(fd, rest, sizeof rest - 1, 0);
    cr_assert_gt(count, 0);
    rest[count] = '\0';
    cr_expect_null(strstr(rest, "\r\n0\r\n"), "%s", rest);
    cr_expect_leq(recv(fd, rest, sizeof rest, 0), 0);
    close(fd);
    close(reads);
}
