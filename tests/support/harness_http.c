/* Plain HTTP for tests: libcurl's easy interface; one connection a call, unless it is kept. */
#include <criterion/criterion.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

struct growing {
    char *at;
    size_t bytes;
};

static size_t collect(char *data, size_t size, size_t count, void *context)
{
    struct growing *text = context;
    size_t bytes = size * count;
    char *at = realloc(text->at, text->bytes + bytes + 1);
    if (at == NULL)
        return 0;
    memcpy(at + text->bytes, data, bytes);
    text->at = at;
    text->bytes += bytes;
    at[text->bytes] = '\0';
    return bytes;
}

void world_http_kept(void **kept, const struct world_request *request, struct world_reply *reply)
{
    struct growing text = {.at = calloc(1, 1)}, head = {.at = calloc(1, 1)};
    struct curl_slist *list = NULL;
    for (int i = 0; request->headers != NULL && request->headers[i] != NULL; i++)
        list = curl_slist_append(list, request->headers[i]);
    if (*kept == NULL)
        *kept = curl_easy_init();
    CURL *curl = *kept;
    cr_assert(curl != NULL);
    curl_easy_reset(curl); /* its connection stays */
    curl_easy_setopt(curl, CURLOPT_URL, request->url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request->method);
    curl_easy_setopt(curl, CURLOPT_NOBODY,
                     (long)(strcmp(request->method, "HEAD") == 0)); /* a body is not waited for */
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, 20000L);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &text);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    if (request->body != NULL)
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request->body);
    reply->status = 0;
    if (curl_easy_perform(curl) == CURLE_OK)
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &reply->status);
    reply->body = text.at;
    reply->body_bytes = text.bytes;
    reply->headers = head.at;
    curl_slist_free_all(list);
}

void world_http_leave(void **kept)
{
    curl_easy_cleanup(*kept);
    *kept = NULL;
}

void world_http(const char *method, const char *url, const char *const *headers, const char *body,
                struct world_reply *reply)
{
    void *kept = NULL;
    const struct world_request request = {.method = method, .url = url, .headers = headers, .body = body};
    world_http_kept(&kept, &request, reply);
    world_http_leave(&kept);
}

void world_reply_done(struct world_reply *reply)
{
    free(reply->body);
    free(reply->headers);
    memset(reply, 0, sizeof *reply);
}

static void control(struct world *w, const char *path, const char *json)
{
    const char *headers[] = {"Content-Type: application/json", NULL};
    char url[256];
    snprintf(url, sizeof url, "%s%s", w->provider_url, path);
    struct world_reply reply;
    world_http("POST", url, headers, json, &reply);
    cr_assert(reply.status == 200 || reply.status == 204, "simulator %s: %ld %s", path, reply.status,
              reply.body);
    world_reply_done(&reply);
}

void simulator_script(struct world *w, const char *json)
{
    control(w, "/control/script", json);
}

void simulator_reset(struct world *w)
{
    control(w, "/control/reset", "{}");
}

int64_t simulator_stat(struct world *w, const char *group, const char *name)
{
    char url[256], of_group[96], of_name[96];
    snprintf(url, sizeof url, "%s/control/stats", w->provider_url);
    snprintf(of_group, sizeof of_group, "\"%s\"", group);
    snprintf(of_name, sizeof of_name, "\"%s\"", name);
    struct world_reply reply;
    world_http("GET", url, NULL, NULL, &reply);
    const char *at = reply.status == 200 ? strstr(reply.body, of_group) : NULL;
    at = at == NULL ? NULL : strstr(at, of_name);
    cr_assert(at != NULL, "simulator has no figure %s %s: %s", group, name, reply.body);
    at += strlen(of_name);
    int64_t value = strtoll(at + strspn(at, ": "), NULL, 10);
    world_reply_done(&reply);
    return value;
}

uint32_t simulator_tickets(struct world *w, int64_t count)
{
    char url[256], body[64];
    struct world_reply reply;
    snprintf(url, sizeof url, "%s/control/tickets", w->provider_url);
    snprintf(body, sizeof body, "{\"count\":%lld}", (long long)count);
    world_http("POST", url, NULL, body, &reply);
    cr_assert_eq(reply.status, 200, "%s", reply.body);
    world_reply_done(&reply);
    snprintf(url, sizeof url, "%s/control/stats", w->provider_url);
    world_http("GET", url, NULL, NULL, &reply);
    const char *at = reply.status == 200 ? strstr(reply.body, "\"run\":") : NULL;
    cr_assert(at != NULL, "%s", reply.body);
    uint32_t run = (uint32_t)strtoul(at + strlen("\"run\":"), NULL, 10);
    world_reply_done(&reply);
    return run;
}

double child_metric(struct child *child, const char *name)
{
    char url[128], line[256];
    struct world_reply reply;
    snprintf(url, sizeof url, "http://%s/metrics", child->admin);
    world_http("GET", url, NULL, NULL, &reply);
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = reply.status == 200 ? strstr(reply.body, line) : NULL;
    double value = at == NULL ? -1 : strtod(at + strlen(line), NULL);
    world_reply_done(&reply);
    return value;
}
