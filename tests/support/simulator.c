/* belfry-simulator: the outside world's HTTP in one small program; simulator.h says all it does.
 * Options come in; "listening on ADDRESS:PORT" goes out; one thread serves until SIGTERM or SIGINT. */
#include "support/simulator.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/status.h"

enum { WAIT_MS = 100, FIRST_OPTION = 256 };

int64_t sim_now_ms(const struct sim *sim)
{
    struct timespec now;
    (void)sim;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

enum option_id { LISTEN = FIRST_OPTION, RECORD, RECORD_FULL, RECEIPT_DELAY, RATE, ACCESS_TOKEN, DELAY, HELP };

static const struct option long_options[] = {
    {"listen", required_argument, NULL, LISTEN},
    {"record", required_argument, NULL, RECORD},
    {"record-full", no_argument, NULL, RECORD_FULL},
    {"receipt-delay", required_argument, NULL, RECEIPT_DELAY},
    {"rate", required_argument, NULL, RATE},
    {"access-token", required_argument, NULL, ACCESS_TOKEN},
    {"delay", required_argument, NULL, DELAY},
    {"help", no_argument, NULL, HELP},
    {0},
};

static const char usage[] =
    "belfry-simulator: the push provider and the account service over real HTTP, for tests and the demo\n"
    "  --listen ADDRESS:PORT  127.0.0.1:0: a free port; the first line on stdout says which\n"
    "  --record FILE          appends one JSON line for each accepted message, before the reply leaves\n"
    "  --record-full          with the message itself\n"
    "  --receipt-delay MS     receipts appear so long after the send (0)\n"
    "  --rate N               messages a second and project, then 429 (0: any)\n"
    "  --access-token TEXT    the Bearer token asked for\n"
    "  --delay MS             before every answer (0)\n"
    "  --help\n";

static bool parse_number(const char *text, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *value >= 0;
}

static int parse_options(int argc, char **argv, struct sim_options *options)
{
    *options = (struct sim_options){.listen = "127.0.0.1:0"};
    for (;;) {
        int option = getopt_long(argc, argv, "h", long_options, NULL);
        bool good = true;
        switch (option) {
        case -1:
            return optind == argc ? -1 : EXIT_USAGE;
        case LISTEN:
            options->listen = optarg;
            break;
        case RECORD:
            options->record = optarg;
            break;
        case RECORD_FULL:
            options->record_full = true;
            break;
        case RECEIPT_DELAY:
            good = parse_number(optarg, &options->receipt_delay_ms);
            break;
        case RATE:
            good = parse_number(optarg, &options->rate);
            break;
        case ACCESS_TOKEN:
            options->access_token = optarg;
            break;
        case DELAY:
            good = parse_number(optarg, &options->delay_ms);
            break;
        case HELP:
        case 'h':
            (void)fputs(usage, stdout);
            return EXIT_DONE;
        default:
            return EXIT_USAGE;
        }
        if (!good) {
            (void)fprintf(stderr, "belfry-simulator: \"%s\" is not a number\n", optarg);
            return EXIT_USAGE;
        }
    }
}

static bool open_record(struct sim *sim)
{
    sim->record_fd = -1;
    if (sim->options.record == NULL)
        return true;
    sim->record_fd = open(sim->options.record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (sim->record_fd < 0)
        (void)fprintf(stderr, "belfry-simulator: %s: %s\n", sim->options.record, strerror(errno));
    return sim->record_fd >= 0;
}

static void serve(struct sim_server *server)
{
    while (!signals_stopping())
        sim_server_run(server, WAIT_MS);
    sim_server_close(server);
}

static void sim_done(struct sim *sim)
{
    for (size_t i = 0; i < sim->rule_count; i++) {
        free(sim->rules[i].token);
        json_decref(sim->rules[i].act);
    }
    for (size_t i = 0; i < sim->ticket_capacity; i++)
        json_decref(sim->tickets[i].receipt);
    free(sim->tickets);
    json_decref(sim->preferences);
    json_decref(sim->projects);
    if (sim->record_fd >= 0)
        (void)close(sim->record_fd);
    free(sim);
}

int main(int argc, char **argv)
{
    int port, result = EXIT_FAILED;
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL)
        return EXIT_FAILED;
    int done = parse_options(argc, argv, &sim->options);
    if (done >= 0) {
        free(sim);
        return done;
    }
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    sim->run = (uint32_t)now.tv_sec ^ ((uint32_t)now.tv_nsec << 2) ^ ((uint32_t)getpid() << 16);
    sim->preferences = json_object();
    sim->projects = json_object();
    signals_open();
    if (open_record(sim)) {
        struct sim_server *server = sim_server_open(sim, &port);
        if (server == NULL) {
            (void)fprintf(stderr, "belfry-simulator: cannot listen on %s: %s\n", sim->options.listen,
                          errno == 0 ? "is it ADDRESS:PORT?" : strerror(errno));
        } else {
            (void)printf("listening on %.*s:%d\n", (int)strcspn(sim->options.listen, ":"),
                         sim->options.listen, port);
            (void)fflush(stdout);
            serve(server);
            result = EXIT_DONE;
        }
    }
    sim_done(sim);
    return result;
}
