/* The contents of events and devices, from the seed and the slot alone, and the key that belfry must claim
 * for each: worked out here from design.md, so that a test compares two independent answers. */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "support/produce.h"

/* Already JSON: escapes, quotes and characters outside ASCII are meant. %s is a person's name. */
static const struct {
    const char *type, *category, *title, *body;
} stories[] = {
    {"meeting.assigned", "meetings", "%s assigned you to a meeting",
     "Quarterly review, room Am\\u00e9lie, 10:30"},
    {"meeting.moved", "meetings", "%s moved \\\"Design sync\\\" to 14:00", "Was 13:00. Same room."},
    {"task.created", "tasks", "%s gave you a task", "Check the figures for the board by Friday"},
    {"task.due", "tasks", "A task of %s is due today", "Renew the certificates \\ud83d\\udd10"},
    {"comment.added", "comments", "%s commented on your draft",
     "“Looks good, one question about section 3 …”"},
    {"comment.mention", "comments", "%s mentioned you", "@you could you have a look? Grüße aus Köln 👋"},
    {"document.shared", "documents", "%s shared a document", "Übersicht 2026 / 売上報告.xlsx"},
    {"build.failed", "alerts", "Build failed: main, started by %s", "3 of 412 tests failed\\nsee the log"},
    {"invoice.paid", "billing", "Invoice paid by %s", "€ 1,280.00 – thank you!"},
    {"system.notice", "general", "%s set a maintenance window", ""},
};
static const char *const people[] = {"Mara", "Jonas", "Aïcha", "Wei",  "Priya", "Søren", "Tomáš", "Zoë",
                                     "Ола",  "健",    "Inês",  "Luka", "Noor",  "Ana",   "Émile", "Ben"};

enum salt { SALT_USER = 1, SALT_GROUP, SALT_STORY, SALT_PERSON, SALT_KEY, SALT_RUN, SALT_OFF, SALT_DATA };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t pick(const struct produce_options *options, uint32_t slot, enum salt salt)
{
    return produce_mix(options->seed, slot, (uint64_t)salt);
}

void user_name(uint32_t user, char name[32])
{
    (void)snprintf(name, 32, "user-%04u", user);
}

void workspace_name(uint32_t user, char name[32])
{
    static const char *const names[WORKSPACES] = {"acme", "globex", "initech", "umbrella", "hooli"};
    (void)snprintf(name, 32, "%s", names[user % WORKSPACES]);
}

void contents_of(const struct produce_options *options, uint32_t slot, struct contents *contents)
{
    uint32_t users = (uint32_t)options->users;
    contents->users[0] = (uint32_t)(pick(options, slot, SALT_USER) % users);
    contents->user_count = 1;
    contents->has_key = pick(options, slot, SALT_KEY) % 8 == 0;
    /* One event in 32 goes to several people of one workspace. */
    uint64_t group = pick(options, slot, SALT_GROUP);
    if (group % 32 != 0 || users < GROUP_MAX * WORKSPACES)
        return;
    uint32_t most = users / WORKSPACES * WORKSPACES; /* so that stepping round stays in the workspace */
    contents->users[0] %= most;
    contents->user_count = 2 + (uint32_t)(group / 32 % (GROUP_MAX - 1));
    for (uint32_t i = 1; i < contents->user_count; i++)
        contents->users[i] = (contents->users[0] + i * WORKSPACES) % most;
}

int32_t contents_partition(const struct produce_options *options, const struct contents *contents)
{
    return (int32_t)(produce_mix(7, contents->users[0], 0) % (uint64_t)options->partitions);
}

/* One run_id in 16 has the characters that a key must encode. */
static void write_run(const struct produce_options *options, const struct planned *planned, char run[80])
{
    bool odd = pick(options, planned->of, SALT_RUN) % 16 == 0;
    bool retried = planned->kind == KIND_DUPLICATE && planned->duplicate == DUP_OTHER_RUN;
    int bytes = snprintf(run, 80, "%s%llu-%u", odd ? "~run:100%-" : "run-", (unsigned long long)options->seed,
                         planned->of);
    if (retried)
        (void)snprintf(run + bytes, (size_t)(80 - bytes), "-again-%u", planned->slot);
}

static void write_idempotency_key(const struct produce_options *options, uint32_t slot, char key[80])
{
    (void)snprintf(key, 80, "order:%llu/%u", (unsigned long long)options->seed, slot);
}

static void write_time(struct buffer *value, int64_t ms)
{
    struct tm parts;
    time_t seconds = ms / 1000;
    char text[40];
    (void)gmtime_r(&seconds, &parts);
    (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    buffer_printf(value, "\"occurred_at\":\"%s.%03dZ\"", text, (int)(ms % 1000));
}

static void write_title(struct buffer *value, const char *title, const char *person)
{
    const char *at = strstr(title, "%s");
    buffer_add_text(value, ",\"title\":\"");
    buffer_add(value, title, (size_t)(at - title));
    buffer_add_text(value, person);
    buffer_add_text(value, at + 2);
    buffer_add_byte(value, '"');
}

static void write_recipients(struct buffer *value, const struct contents *contents)
{
    char name[32];
    user_name(contents->users[0], name);
    if (contents->user_count == 1) {
        buffer_printf(value, ",\"recipient_user_id\":\"%s\"", name);
        return;
    }
    buffer_add_text(value, ",\"recipients\":[");
    for (uint32_t i = 0; i < contents->user_count; i++) {
        user_name(contents->users[i], name);
        buffer_printf(value, "%s\"%s\"", i == 0 ? "" : ",", name);
    }
    buffer_add_byte(value, ']');
}

void contents_write(const struct produce_options *options, const struct planned *planned,
                    const struct contents *contents, struct buffer *value)
{
    uint32_t slot = planned->of;
    uint64_t data = pick(options, slot, SALT_DATA);
    size_t story = pick(options, slot, SALT_STORY) % COUNT(stories);
    const char *person = people[pick(options, slot, SALT_PERSON) % COUNT(people)];
    char text[80];
    write_run(options, planned, text);
    buffer_printf(value, "{\"run_id\":\"%s\",\"event_type\":\"%s\"", text, stories[story].type);
    workspace_name(contents->users[0], text);
    buffer_printf(value, ",\"workspace_id\":\"%s\",\"category\":\"%s\"", text, stories[story].category);
    write_recipients(value, contents);
    write_title(value, stories[story].title, person);
    if (stories[story].body[0] != '\0')
        buffer_printf(value, ",\"body\":\"%s\"", stories[story].body);
    /* Numbers that a careless re-serialisation changes. */
    buffer_printf(value, ",\"data\":{\"url\":\"/items/%llu\",\"score\":0.1,\"id\":9007199254740993}",
                  (unsigned long long)(data % 100000));
    if (contents->has_key) {
        write_idempotency_key(options, slot, text);
        buffer_printf(value, ",\"idempotency_key\":\"%s\"", text);
    }
    if ((double)(pick(options, slot, SALT_OFF) % 10000) < options->feed_only * 100)
        buffer_add_text(value, ",\"push\":false");
    buffer_add_byte(value, ',');
    write_time(value, options->base_ms - 60000);
    buffer_add_byte(value, '}');
}

/* A component of a key: '%', ':' and a leading '~' are percent-encoded. */
static void encode(const char *text, char *out, size_t size)
{
    size_t bytes = 0;
    for (size_t i = 0; text[i] != '\0' && bytes + 4 < size; i++) {
        bool special = text[i] == '%' || text[i] == ':' || (text[i] == '~' && i == 0);
        bytes +=
            (size_t)snprintf(out + bytes, size - bytes, special ? "%%%02X" : "%c", (unsigned char)text[i]);
    }
}

static void hash(const char *text, char out[66])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned bytes = 0;
    (void)EVP_Digest(text, strlen(text), digest, &bytes, EVP_sha256(), NULL);
    out[0] = '~';
    for (unsigned i = 0; i < bytes && i < 32; i++)
        (void)snprintf(out + 1 + (size_t)(2 * i), 3, "%02x", digest[i]);
}

void contents_key(const struct produce_options *options, const struct planned *planned,
                  const struct contents *contents, uint32_t recipient, char key[KEY_MAX_BYTES])
{
    char text[80], first[120], name[32];
    if (contents->has_key) {
        write_idempotency_key(options, planned->of, text);
        hash(text, first);
    } else {
        write_run(options, planned, text);
        encode(text, first, sizeof first);
    }
    size_t story = pick(options, planned->of, SALT_STORY) % COUNT(stories);
    user_name(contents->users[recipient], name);
    (void)snprintf(key, KEY_MAX_BYTES, "notification:%s:%s:%s", first, stories[story].type, name);
}

void device_write(const struct produce_options *options, uint32_t device, struct buffer *value,
                  char token[96])
{
    static const char *const platforms[] = {"ios", "android", "web"};
    char name[32];
    user_name(device % (uint32_t)options->users, name);
    (void)snprintf(token, 96, "ExponentPushToken[%s-%llu-%u]", name, (unsigned long long)options->seed,
                   device);
    buffer_printf(value,
                  "{\"op\":\"register\",\"user_id\":\"%s\",\"token\":\"%s\",\"platform\":\"%s\","
                  "\"app_version\":\"3.%u.0\"}",
                  name, token, platforms[device % COUNT(platforms)], device % 12);
}
