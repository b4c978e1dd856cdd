/* Tickets and what becomes of them: an id carries the number of its ticket, so a receipt is found by index.
 * A receipt is there from its due time on, and for a day; an id that is not ours, or not yet due, or too old,
 * is absent from the answer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/simulator.h"

enum { FIRST_CAPACITY = 1 << 12 };
static const int64_t KEPT_MS = 86400000LL;

static void write_id(const struct sim *sim, uint64_t number, char id[SIM_TICKET_ID_BYTES])
{
    (void)snprintf(id, SIM_TICKET_ID_BYTES, "%08" PRIx32 "-0000-7000-8000-%012" PRIx64, sim->run,
                   number & 0xffffffffffffU);
}

void sim_ticket_add(struct sim *sim, char id[SIM_TICKET_ID_BYTES], json_t *receipt, int64_t delay_ms)
{
    if (sim->ticket_count >= sim->ticket_capacity && sim->ticket_capacity < SIM_TICKETS_MAX) {
        size_t capacity = sim->ticket_capacity == 0 ? FIRST_CAPACITY : 2 * sim->ticket_capacity;
        struct sim_ticket *tickets = realloc(sim->tickets, capacity * sizeof *tickets);
        if (tickets == NULL)
            abort();
        memset(tickets + sim->ticket_capacity, 0, (capacity - sim->ticket_capacity) * sizeof *tickets);
        sim->tickets = tickets;
        sim->ticket_capacity = capacity;
    }
    write_id(sim, sim->ticket_count, id);
    struct sim_ticket *ticket = &sim->tickets[sim->ticket_count++ % SIM_TICKETS_MAX];
    json_decref(ticket->receipt);
    int64_t now_ms = sim_now_ms(sim) + sim->clock_offset_ms;
    *ticket = (struct sim_ticket){.sent_ms = now_ms, .due_ms = now_ms + delay_ms, .receipt = receipt};
}

static const struct sim_ticket *find(const struct sim *sim, const char *id)
{
    char right[SIM_TICKET_ID_BYTES];
    if (strlen(id) != SIM_TICKET_ID_BYTES - 1)
        return NULL;
    uint64_t number = strtoull(id + SIM_TICKET_ID_BYTES - 13, NULL, 16);
    write_id(sim, number, right);
    if (strcmp(id, right) != 0 || number >= sim->ticket_count || sim->ticket_count - number > SIM_TICKETS_MAX)
        return NULL;
    const struct sim_ticket *ticket = &sim->tickets[number % SIM_TICKETS_MAX];
    int64_t now_ms = sim_now_ms(sim) + sim->clock_offset_ms;
    return now_ms >= ticket->due_ms && now_ms < ticket->sent_ms + KEPT_MS ? ticket : NULL;
}

static bool refused(struct sim_request *request, const json_t *ids)
{
    if (!sim_authorized(request))
        return true;
    bool strings = json_is_array(ids);
    for (size_t i = 0; strings && i < json_array_size(ids); i++)
        strings = json_is_string(json_array_get(ids, i));
    if (!strings) {
        sim_reply_error(request, 400, "VALIDATION_ERROR", "\"ids\" must be an array of strings.", NULL);
        return true;
    }
    if (json_array_size(ids) > SIM_RECEIPT_IDS_MAX) {
        sim_reply_error(request, 400, "PUSH_TOO_MANY_RECEIPTS",
                        "You are trying to get more than 1000 push receipts in one request.", NULL);
        return true;
    }
    return false;
}

/* From the last id to the first: who maps by position finds out. */
static void answer_receipts(struct sim_request *request, const json_t *ids)
{
    json_t *found = json_object();
    for (size_t i = json_array_size(ids); i > 0; i--) {
        const char *id = json_string_value(json_array_get(ids, i - 1));
        const struct sim_ticket *ticket = find(request->sim, id);
        if (ticket == NULL)
            continue;
        json_object_set_new(found, id,
                            ticket->receipt != NULL ? json_incref(ticket->receipt)
                                                    : json_pack("{s:s}", "status", "ok"));
    }
    request->sim->counters[SIM_RECEIPTS].accepted += (long)json_object_size(found);
    json_t *reply = json_pack("{s:o}", "data", found);
    sim_reply_json(request, 200, reply);
    json_decref(reply);
}

void sim_push_receipts(struct sim_request *request)
{
    struct sim_counters *counters = &request->sim->counters[SIM_RECEIPTS];
    struct sim_match match;
    json_t *value = json_loadb(request->body.bytes > 0 ? request->body.at : "", request->body.bytes, 0, NULL);
    json_t *ids = json_object_get(value, "ids");
    long count = (long)json_array_size(ids);
    counters->largest = count > counters->largest ? count : counters->largest;
    sim_match_rules(request, ids, &match);
    if (refused(request, ids))
        counters->refused++;
    else
        answer_receipts(request, ids);
    sim_match_apply(request, &match);
    json_decref(value);
}
