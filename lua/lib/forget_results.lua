-- Forgets the first of these results, until `enough` bytes are free. Returns how many bytes that freed, and how many
-- results went. The rows go last: by them a later call finds what a cut-off script left.
-- needs: RESULT_EXTRA; keys: results, result_times
-- gives: forget_results
local function forget_results(ids, enough)
  local freed, gone, seen = 0, {}, {}
  for _, id in ipairs(ids) do
    if freed >= enough then
      break
    end
    local length = seen[id] and 0 or redis.call('HSTRLEN', results, id)
    freed = freed + (length > 0 and 2 * #id + length + RESULT_EXTRA or 0)
    gone[#gone + 1], seen[id] = id, true
  end
  if gone[1] then
    redis.call('HDEL', results, unpack(gone))
    redis.call('ZREM', result_times, unpack(gone))
  end
  return freed, #gone
end
