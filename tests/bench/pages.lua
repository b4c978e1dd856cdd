-- wrk: GETs of a file's lines ("TARGET [TOKEN]"), picked at random. Prints one line that tests/bench/reader reads:
-- requests, microseconds, p50 and p99 in microseconds, refusals, failed connections.
local lines = {}

function init(args)
    for line in io.lines(args[1]) do
        local target, token = line:match("^(%S+) ?(%S*)$")
        local headers = {}
        if token ~= "" then headers["Authorization"] = "Bearer " .. token end
        lines[#lines + 1] = wrk.format("GET", target, headers)
    end
    math.randomseed(tonumber(args[2]))
end

function request()
    return lines[math.random(#lines)]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format("RESULT %d %d %d %d %d %d\n", summary.requests, summary.duration, latency:percentile(50),
        latency:percentile(99), errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
