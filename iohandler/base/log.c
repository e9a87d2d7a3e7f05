/* The log of one loop: a ring of lines, oldest first. It owns its lines; the thread that holds the
 * loop runs it.
 *
 * A full ring keeps what it has, since the first lines of a flood tell its cause. The line that
 * counts the lost ones stands where they would have stood.
 */
#include "base/log.h"

#include <inttypes.h>
#include <iohandler/handler.h>
#include <stdarg.h>
#include <stdio.h>

static struct ioh__log_line *append(struct ioh__log *log)
{
    return &log->line[(log->first + log->count++) % IOH__LOG_LINES];
}

static void say_lost(struct ioh__log *log, struct ioh__log_line *line)
{
    line->level = IOH_LOG_WARN;
    snprintf(line->text, sizeof(line->text), "%" PRIu64 " log line%s lost here", log->lost,
             log->lost == 1 ? " was" : "s were");
    log->lost = 0;
}

void ioh__log_add(struct ioh__log *log, int level, const char *format, ...)
{
    if (!log->on)
        return;
    if (log->lost > 0 && log->count < IOH__LOG_LINES)
        say_lost(log, append(log));
    if (log->count == IOH__LOG_LINES) {
        log->lost++;
        return;
    }
    struct ioh__log_line *line = append(log);
    line->level = level;
    line->text[0] = 0;
    va_list args;
    va_start(args, format);
    vsnprintf(line->text, sizeof(line->text), format, args);
    va_end(args);
}

bool ioh__log_take(struct ioh__log *log, struct ioh__log_line *line)
{
    if (log->count > 0) {
        *line = log->line[log->first];
        log->first = (log->first + 1) % IOH__LOG_LINES;
        log->count--;
        return true;
    }
    if (log->lost > 0) {
        say_lost(log, line);
        return true;
    }
    return false;
}
