-- The outcome history, for who looks later what became of deliveries and messages: an entry an event, in a stream that
-- keeps about as many as the queue's settings say, and none where they say nothing. Noted after it has happened; what
-- cannot be noted stops nothing. The fields are the same in every entry, so that Redis stores their names once.
--   attempt: deliveries so far; age, delay: milliseconds, since it was sent and until it comes back
--   told: { cause, consumer, error }, what there is of them, the last two as in lib/history
-- @include lib/json
-- @include lib/setting
local names = {} -- of consumers, by their JSON
local function outcome(event, id, head, state, delay, told)
  local kept = setting('outcomes')
  if not kept then
    return
  end
  told = told or {}
  local age = math.max(now - math.floor(head.birth / 4096), 0)
  local consumer, failure = told.consumer or '""', told.error and read_json(told.error:match('^[^\t]*')) or {}
  names[consumer] = names[consumer] or read_json('[' .. consumer .. ']')[1] or ''
  redis.pcall(
    'XADD', outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', state.deliveries,
    'age', string.format('%.0f', age), 'delay', string.format('%.0f', delay), 'consumer', names[consumer],
    'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
    'reason', state.reason, 'cause', told.cause or ''
  )
end
