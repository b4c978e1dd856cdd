/* In: the flags. Out: the file. Always: a file of that name is whole; what was not finished is removed, or,
 * after a crash, still called .part. */
#include "reader_export.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct output {
    char part[PATH_MAX];
    int fd;
    size_t bytes;
};

static enum status output_fail(const struct output *output, struct fault *fault)
{
    fault_set(fault, "output", "%s: %s", output->part, strerror(errno));
    return ST_STOP;
}

static enum status output_write(void *context, struct span piece, struct fault *fault)
{
    struct output *output = context;
    for (size_t at = 0; at < piece.bytes;) {
        ssize_t written = write(output->fd, piece.at + at, piece.bytes - at);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return output_fail(output, fault);
        at += (size_t)written;
    }
    output->bytes += piece.bytes;
    return ST_OK;
}

static enum status export_usage(struct fault *fault, const char *detail)
{
    fault_set(fault, "usage", "%s", detail);
    return ST_REJECT;
}

static enum status export_into(const struct feed_setup *setup, const struct feed_once *once,
                               struct output *output, const char *name, struct fault *fault)
{
    const struct feed_sink sink = {output_write, output};
    /* A person's notifications: for nobody else's eyes. */
    output->fd = open(output->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (output->fd < 0)
        return output_fail(output, fault);
    enum status status = feed_export(setup, once, &sink, fault);
    if (status == ST_OK && fsync(output->fd) != 0 && errno != EINVAL) /* EINVAL: a pipe */
        status = output_fail(output, fault);
    if (close(output->fd) != 0 && status == ST_OK)
        status = output_fail(output, fault);
    if (status == ST_OK && rename(output->part, name) != 0)
        status = output_fail(output, fault);
    if (status != ST_OK)
        (void)unlink(output->part);
    return status;
}

enum status reader_export(const struct frame *frame, const struct feed_setup *setup, struct fault *fault)
{
    const struct options *options = frame->options;
    const char *feed = options_value(options, "feed", 0), *name = options_value(options, "output", 0);
    const char *format = options_value(options, "format", 0);
    struct output output = {.fd = -1};
    struct feed_once once = {
        .feed = span_of(feed == NULL ? "notifications" : feed),
        .workspace = span_of(options_value(options, "workspace", 0)),
        .user = span_of(options_value(options, "user", 0)),
        .csv = format != NULL && strcmp(format, "csv") == 0,
    };
    if (format != NULL && !once.csv && strcmp(format, "ndjson") != 0)
        return export_usage(fault, "--format takes ndjson or csv");
    if (name == NULL || name[0] == '\0')
        return export_usage(fault, "-o FILE says where the export goes");
    int bytes = snprintf(output.part, sizeof output.part, "%s.part", name);
    if (bytes < 0 || (size_t)bytes >= sizeof output.part)
        return export_usage(fault, "the name of the file is too long");
    enum status status = config_require(frame->config, "database", "uri", fault);
    if (status == ST_OK)
        status = export_into(setup, &once, &output, name, fault);
    if (status == ST_OK)
        printf("%zu bytes in %s\n", output.bytes, name);
    return status;
}
