-- Forgets the first of these rows of results (lib/kept), each with its birth, until `enough` bytes are free. Returns how many
-- bytes that freed, and how many outcomes went. The rows of `result_times` go last: by them a later call finds what a cut-off
-- script left.
-- needs: RESULT_EXTRA, BORN; keys: results, result_times
-- gives: forget_results
local TOGETHER = 1000 -- rows in one command
local function forget_results(rows, enough)
  local freed, gone, outcomes = 0, {}, 0
  for _, row in ipairs(rows) do
    if freed >= enough then
      break
    end
    local is_birth = row:sub(-1) == BORN
    outcomes = outcomes + (is_birth and 0 or 1)
    for _, name in ipairs({ row, not is_birth and row .. BORN or nil }) do
      local length = gone[name] and 0 or redis.call('HSTRLEN', results, name)
      freed = freed + (length > 0 and 2 * #name + length + RESULT_EXTRA or 0)
      gone[#gone + 1], gone[name] = name, true
    end
  end
  for at = 1, #gone, TOGETHER do
    local stop = math.min(at + TOGETHER - 1, #gone)
    redis.call('HDEL', results, unpack(gone, at, stop))
    redis.call('ZREM', result_times, unpack(gone, at, stop))
  end
  return freed, outcomes
end
