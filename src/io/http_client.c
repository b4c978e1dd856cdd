/* curl multi behind io/http_client.h. In: requests, copied. Out: one result each, saying what is known.
 *
 * Always holds: a body is given to libcurl once, by a read callback, and the seek callback fails: a
 * connection that dies under a reused handle ends the transfer (CURLE_SEND_FAIL_REWIND) and never sends a
 * POST twice. "Nothing sent" means that callback was never called: without a body no provider accepts a POST
 * that declares one. A transfer is free, out, finished (its result waits) or lent (its result is in the
 * caller's hands). A crash here loses what was in flight; nothing on disk. */
#include "io/http_client.h"

#include <curl/curl.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "gzip.h"

/* A connection idle for longer is not used again: servers close idle ones after 5 s and more (Node's
 * default), and a request that meets the closing is lost for good, for it may have been read. */
enum { IDLE_REUSE_S = 4 };

enum transfer_state { TRANSFER_FREE, TRANSFER_OUT, TRANSFER_FINISHED, TRANSFER_LENT };

struct transfer {
    enum transfer_state state;
    uint64_t tag;
    CURL *easy;
    CURLcode code;
    struct curl_slist *headers;
    struct buffer request, response;
    size_t given; /* bytes of the request that libcurl took */
    bool touched; /* libcurl asked for the body at least once */
};

struct http_client {
    CURLM *multi;
    struct http_client_settings settings;
    char *user_agent;
    size_t out;     /* in flight */
    size_t waiting; /* finished */
    struct transfer transfers[];
};

/* ---- libcurl's callbacks ------------------------------------------------------------------------------- */

static size_t give_body(char *to, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t room = size * count, left = transfer->request.bytes - transfer->given;
    size_t bytes = left < room ? left : room;
    transfer->touched = true;
    if (bytes > 0)
        memcpy(to, transfer->request.at + transfer->given, bytes);
    transfer->given += bytes;
    return bytes;
}

/* Never: a body that was begun is not begun again. */
static int refuse_rewind(void *context, curl_off_t offset, int origin)
{
    (void)context;
    (void)offset;
    (void)origin;
    return CURL_SEEKFUNC_FAIL;
}

static size_t take_body(char *from, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    buffer_add(&transfer->response, from, size * count);
    return transfer->response.failed ? 0 : size * count; /* 0 ends the transfer: too large, or no memory */
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

static bool make_transfers(struct http_client *client)
{
    for (size_t i = 0; i < client->settings.in_flight_max; i++) {
        struct transfer *transfer = &client->transfers[i];
        buffer_init(&transfer->request, client->settings.request_bytes_max * 101 / 100 + 1024);
        buffer_init(&transfer->response, client->settings.response_bytes_max);
        transfer->easy = curl_easy_init();
        if (transfer->easy == NULL)
            return false;
    }
    return true;
}

enum status http_client_open(const struct http_client_settings *settings, struct http_client **client,
                             struct fault *fault)
{
    size_t count = settings->in_flight_max;
    if (count < 1 || count > HTTP_CLIENT_IN_FLIGHT_MAX) {
        fault_set(fault, "http_client", "%zu requests in flight; 1 to %d are possible", count,
                  HTTP_CLIENT_IN_FLIGHT_MAX);
        return ST_FATAL;
    }
    struct http_client *made = NULL;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        made = calloc(1, sizeof *made + count * sizeof made->transfers[0]);
    if (made == NULL)
        goto failed;
    made->settings = *settings;
    made->multi = curl_multi_init();
    made->user_agent = strdup(settings->user_agent);
    if (made->multi == NULL || made->user_agent == NULL || !make_transfers(made))
        goto failed;
    curl_multi_setopt(made->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)count);
    curl_multi_setopt(made->multi, CURLMOPT_MAXCONNECTS, (long)count);
    *client = made;
    return ST_OK;
failed:
    http_client_close(made);
    fault_set(fault, "memory", "libcurl cannot be started");
    return ST_FATAL;
}

static void transfer_free(struct transfer *transfer)
{
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    transfer->state = TRANSFER_FREE;
}

void http_client_close(struct http_client *client)
{
    if (client == NULL)
        return;
    if (client->multi != NULL)
        http_client_abort(client);
    for (size_t i = 0; i < client->settings.in_flight_max; i++) {
        struct transfer *transfer = &client->transfers[i];
        curl_easy_cleanup(transfer->easy);
        buffer_done(&transfer->request);
        buffer_done(&transfer->response);
    }
    curl_multi_cleanup(client->multi);
    free(client->user_agent);
    free(client);
}

void http_client_abort(struct http_client *client)
{
    for (size_t i = 0; i < client->settings.in_flight_max; i++) {
        struct transfer *transfer = &client->transfers[i];
        if (transfer->state == TRANSFER_OUT)
            curl_multi_remove_handle(client->multi, transfer->easy); /* closes its connection */
        if (transfer->state != TRANSFER_FREE)
            transfer_free(transfer);
    }
    client->out = 0;
    client->waiting = 0;
}

/* ---- submitting ---------------------------------------------------------------------------------------- */

bool http_client_takes_url(const char *url)
{
    CURLU *parsed = curl_url();
    char *scheme = NULL, *host = NULL;
    bool fine = parsed != NULL && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
                curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
                curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK && host[0] != '\0' &&
                (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    curl_free(scheme);
    curl_free(host);
    curl_url_cleanup(parsed);
    return fine;
}

static bool add_header(struct transfer *transfer, const char *header)
{
    struct curl_slist *longer = curl_slist_append(transfer->headers, header);
    if (longer == NULL)
        return false;
    transfer->headers = longer;
    return true;
}

/* Copies body and headers into the transfer; false when there is no room. */
static bool fill_transfer(const struct http_client *client, struct transfer *transfer,
                          const struct http_request *request)
{
    buffer_reset(&transfer->request);
    buffer_reset(&transfer->response);
    transfer->given = 0;
    transfer->touched = false;
    bool fine = request->body.bytes <= client->settings.request_bytes_max && add_header(transfer, "Expect:");
    for (size_t i = 0; fine && request->headers != NULL && request->headers[i] != NULL; i++)
        fine = i < HTTP_CLIENT_HEADERS_MAX && add_header(transfer, request->headers[i]);
    if (!fine)
        return false;
    if (request->gzip && request->body.bytes > HTTP_CLIENT_GZIP_OVER)
        return gzip_pack(request->body, GZIP_SMALL, &transfer->request) &&
               add_header(transfer, "Content-Encoding: gzip");
    buffer_add_span(&transfer->request, request->body);
    return !transfer->request.failed;
}

static void set_options(const struct http_client *client, struct transfer *transfer, const char *url)
{
    CURL *easy = transfer->easy;
    curl_easy_reset(easy);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* a hanging name look-up is left behind, not joined */
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)client->settings.request_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)client->settings.connect_timeout_ms);
    curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)IDLE_REUSE_S);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, client->user_agent);
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->request.bytes);
    curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
    curl_easy_setopt(easy, CURLOPT_READDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, refuse_rewind);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
}

/* Results in the caller's hands end with the next call. */
static struct transfer *take_free(struct http_client *client)
{
    struct transfer *found = NULL;
    for (size_t i = 0; i < client->settings.in_flight_max; i++) {
        struct transfer *transfer = &client->transfers[i];
        if (transfer->state == TRANSFER_LENT)
            transfer_free(transfer);
        if (transfer->state == TRANSFER_FREE && found == NULL)
            found = transfer;
    }
    return found;
}

enum status http_client_submit(struct http_client *client, const struct http_request *request, uint64_t tag,
                               struct fault *fault)
{
    struct transfer *transfer = take_free(client);
    if (transfer == NULL) {
        fault_set(fault, "busy", "%zu requests are in flight", client->settings.in_flight_max);
        return ST_RETRY;
    }
    if (!http_client_takes_url(request->url)) {
        fault_set(fault, "request", "not a URL of http or https");
        return ST_REJECT;
    }
    if (!fill_transfer(client, transfer, request)) {
        transfer_free(transfer);
        fault_set(fault, "request", "a body of %zu bytes or its headers are too large", request->body.bytes);
        return ST_REJECT;
    }
    set_options(client, transfer, request->url);
    transfer->tag = tag;
    if (curl_multi_add_handle(client->multi, transfer->easy) != CURLM_OK) {
        transfer_free(transfer);
        fault_set(fault, "memory", "libcurl takes no request");
        return ST_FATAL;
    }
    transfer->state = TRANSFER_OUT;
    client->out++;
    return ST_OK;
}

size_t http_client_in_flight(const struct http_client *client)
{
    return client->out + client->waiting;
}

/* ---- results ------------------------------------------------------------------------------------------- */

/* Moves what libcurl is done with from out to finished. */
static void collect_finished(struct http_client *client)
{
    int left = 0;
    for (CURLMsg *message; (message = curl_multi_info_read(client->multi, &left)) != NULL;) {
        void *context = NULL;
        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&context);
        struct transfer *transfer = context;
        transfer->code = message->data.result;
        transfer->state = TRANSFER_FINISHED;
        curl_multi_remove_handle(client->multi, transfer->easy);
        client->out--;
        client->waiting++;
    }
}

static void read_retry_after(struct transfer *transfer, struct http_result *result)
{
    struct curl_header *header = NULL;
    size_t index = 0;
    while (curl_easy_header(transfer->easy, "Retry-After", index, CURLH_HEADER, -1, &header) == CURLHE_OK) {
        if (index < HTTP_CLIENT_RETRY_AFTER_MAX)
            result->retry_after[index] = span_of(header->value);
        index++;
        result->retry_after_count = (int)header->amount;
        if (index >= header->amount)
            break;
    }
}

static void fill_result(struct transfer *transfer, struct http_result *result)
{
    *result = (struct http_result){.tag = transfer->tag, .cause = ""};
    long status = 0, connections = 0;
    char *type = NULL;
    curl_off_t took_us = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(transfer->easy, CURLINFO_NUM_CONNECTS, &connections);
    curl_easy_getinfo(transfer->easy, CURLINFO_CONTENT_TYPE, &type);
    curl_easy_getinfo(transfer->easy, CURLINFO_TOTAL_TIME_T, &took_us);
    result->status = (int)status;
    /* Not to be rewound: a connection was made to send it again, because the one it went over had died. */
    result->reused = connections == 0 || transfer->code == CURLE_SEND_FAIL_REWIND;
    result->content_type = span_of(type);
    result->took_us = (int64_t)took_us;
    result->timed_out = transfer->code == CURLE_OPERATION_TIMEDOUT;
    result->body = buffer_span(&transfer->response);
    read_retry_after(transfer, result);
    if (transfer->code == CURLE_OK && status > 0) {
        result->transport = HTTP_ANSWERED;
        return;
    }
    /* A body of no bytes is "given" once libcurl asked for it; a header alone that got an answer was seen. */
    result->transport = transfer->touched || status > 0 ? HTTP_MAYBE : HTTP_NOTHING_SENT;
    result->cause =
        transfer->code == CURLE_OK ? "no status in the answer" : curl_easy_strerror(transfer->code);
}

static bool take_finished(struct http_client *client, struct http_result *result)
{
    collect_finished(client);
    for (size_t i = 0; client->waiting > 0 && i < client->settings.in_flight_max; i++) {
        struct transfer *transfer = &client->transfers[i];
        if (transfer->state != TRANSFER_FINISHED)
            continue;
        fill_result(transfer, result);
        transfer->state = TRANSFER_LENT;
        client->waiting--;
        return true;
    }
    return false;
}

static int64_t now_ms(void)
{
    return clock_monotonic_ms(&clock_system);
}

bool http_client_poll(struct http_client *client, int timeout_ms, struct http_result *result)
{
    (void)take_free(client);
    int64_t deadline = now_ms() + timeout_ms;
    for (;;) {
        int running = 0;
        curl_multi_perform(client->multi, &running);
        if (take_finished(client, result))
            return true;
        int64_t left = deadline - now_ms();
        if (left <= 0)
            return false;
        struct curl_waitfd wake = {.fd = client->settings.wake_fd, .events = CURL_WAIT_POLLIN};
        unsigned extra = client->settings.wake_fd >= 0 ? 1 : 0;
        curl_multi_poll(client->multi, &wake, extra, (int)left, NULL);
        if (extra > 0 && (wake.revents & CURL_WAIT_POLLIN) != 0) {
            curl_multi_perform(client->multi, &running);
            return take_finished(client, result);
        }
    }
}
