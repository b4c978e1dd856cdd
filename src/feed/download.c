/* In: ranges of an export's rows. Out: one stream. Always: line n is ordinal n, nothing is left out, and only
 * a stream that gave the last row out ends with a final chunk. A crash here cuts the streams; clients go on
 * with ?after. */
#include "feed/download.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "feed/export_text.h"
#include "feed/exports.h"
#include "feed/reply.h"

/* A row of CSV may be twice as long as its JSON. */
enum { PENDING_BYTES_MAX = 2 * REPLY_BYTES_MAX, TRIES_MAX = 2, NAME_MAX_BYTES = 160, REQUEST_ID_MAX = 32 };

struct download {
    struct serve *serve;
    struct asked *asked;        /* whose statement goes out again, range by range */
    struct http_stream *stream; /* NULL: gone */
    bool under_way;             /* a statement is */
    struct export_text text;
    struct buffer pending; /* of it: what is not taken yet */
    size_t written;        /* of pending */
    char request_id[REQUEST_ID_MAX];
};

void download_free(struct download *download)
{
    if (download == NULL)
        return;
    download->serve->downloads--;
    buffer_done(&download->pending);
    free(download);
}

static void download_end(struct download *d)
{
    struct asked *asked = d->asked;
    download_free(d);
    free(asked);
}

void download_cut(struct serve *serve, struct asked *asked, const char *code)
{
    struct download *d = asked->download;
    (void)serve;
    if (d->stream != NULL) {
        log_event(LOG_WARN, "READ-EXPORT-CUT", "a download was cut", log_text("code", code),
                  log_int("after", asked->export.range.after), log_text("request_id", d->request_id));
        http_stream_cut(d->stream);
    }
    download_end(d);
}

/* ---- the stream ---------------------------------------------------------------------------------------- */

/* Gives out what there is room for; asks for the next range when all was. d may be gone afterwards. */
static void download_pump(struct download *d)
{
    while (d->written < d->pending.bytes) {
        struct span piece = {d->pending.at + d->written, d->pending.bytes - d->written};
        size_t taken = http_stream_write(d->stream, piece);
        d->written += taken;
        if (taken < piece.bytes)
            return; /* download_room */
    }
    if (export_text_is_whole(&d->text)) {
        http_stream_end(d->stream);
        download_end(d);
        return;
    }
    d->under_way = true;
    d->asked->tries = 0;
    d->asked->since_ms = clock_monotonic_ms(&d->serve->clock);
    serve_again(d->serve, d->asked);
}

static void download_room(void *context, struct http_stream *stream)
{
    (void)stream;
    download_pump(context);
}

/* The statement under way is answered to nobody. */
static void download_gone(void *context, struct http_stream *stream)
{
    struct download *d = context;
    (void)stream;
    d->stream = NULL;
    if (!d->under_way)
        download_end(d);
}

static void download_take(struct download *d, const struct db_result *result)
{
    struct fault fault;
    struct export export;
    buffer_reset(&d->pending);
    d->written = 0;
    enum status status = exports_judge_rows(d->asked->feeds, result, &export, &fault);
    if (status == ST_OK)
        status = export_text_add(&d->text, result, &d->pending, &fault);
    if (status != ST_OK) {
        download_cut(d->serve, d->asked, fault.code);
        return;
    }
    d->asked->export.range.after = d->text.after;
    download_pump(d);
}

void download_answer(struct serve *serve, struct asked *asked, const struct db_answer *answer)
{
    struct download *d = asked->download;
    d->under_way = false;
    if (d->stream == NULL) {
        download_end(d);
    } else if (answer->status == ST_OK) {
        download_take(d, answer->result);
    } else if (answer->status == ST_RETRY && asked->tries < TRIES_MAX) {
        d->under_way = true;
        serve_again(serve, asked);
    } else {
        download_cut(serve, asked, answer->fault.code);
    }
}

static struct download *download_new(struct serve *serve, struct asked *asked, const struct db_result *result)
{
    struct export_asker asker;
    struct export export;
    struct download *d = calloc(1, sizeof *d);
    if (d == NULL)
        return NULL;
    export_open(result, 0, &asker, &export);
    *d = (struct download){.serve = serve,
                           .asked = asked,
                           .text = {.source = feeds_find_served(asked->feeds, export.feed)->source,
                                    .csv = span_is(export.format, "csv"),
                                    .rows = export.rows,
                                    .after = asked->export.range.after}};
    buffer_init(&d->pending, PENDING_BYTES_MAX);
    snprintf(d->request_id, sizeof d->request_id, "%s", http_request_id(asked->request));
    asked->download = d;
    serve->downloads++;
    return d;
}

void download_begin(struct serve *serve, struct asked *asked, const struct db_result *result)
{
    char id[UUID_TEXT_BYTES + 1], disposition[NAME_MAX_BYTES];
    struct http_request *request = asked->request;
    struct download *d = serve->downloads < DOWNLOADS_MAX ? download_new(serve, asked, result) : NULL;
    if (d == NULL) {
        struct fault fault;
        free(asked);
        fault_set(&fault, "unavailable", "Too many exports are being read just now.");
        (void)reply_refuse(request, &fault);
        return;
    }
    uuid_format(asked->export.of.id, id);
    snprintf(disposition, sizeof disposition, "attachment; filename=\"%s-%s.%s\"", d->text.source->name, id,
             d->text.csv ? "csv" : "ndjson");
    const struct http_field fields[] = {{"Cache-Control", "private, no-store"},
                                        {"Vary", "Authorization"},
                                        {"Content-Disposition", disposition}};
    const char *csv = asked->export.range.after == 0 ? "text/csv; charset=utf-8; header=present"
                                                     : "text/csv; charset=utf-8; header=absent";
    const struct http_reply reply = {.status = 200,
                                     .content_type = d->text.csv ? csv : "application/x-ndjson",
                                     .fields = fields,
                                     .field_count = sizeof fields / sizeof fields[0]};
    const struct http_stream_handler handler = {.room = download_room, .gone = download_gone, .context = d};
    asked->request = NULL;
    d->stream = http_request_stream(request, &reply, &handler);
    if (d->stream == NULL)
        download_end(d);
    else
        download_take(d, result);
}
