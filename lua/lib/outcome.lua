-- Writes an event to the outcome history, a record of the outcomes of deliveries and messages. It is a stream of about as
-- many entries as the queue's settings allow; without that setting nothing is written. An event is written after it has
-- happened, and a failed write stops nothing. The fields are the same in every entry, so that Redis stores their names
-- once.
--   attempt: how many so far (lib/attempts); age, delay: milliseconds since the send and until the redelivery
--   detail: { cause, consumer, error }, those that are known; the last two as in lib/remember
-- needs: setting, now, read_json, attempts; keys: outcomes
-- An event that ends a message whose result was asked for is also kept as its outcome (lib/kept).
-- gives: outcome
local ENDS = {
  dead = true, expired = true, discarded = true, purged = true, cancelled = true, moved = true, undone = true, redriven = true,
}
local names = {} -- of consumers, by their JSON
local function outcome(event, id, head, state, delay, detail)
  local birth = string.format('%.0f', head.birth)
  if ENDS[event] and state.more:find(' result=', 1, true) then
    -- needs: keep_results
    local word = event == 'undone' and state.part or event
    local cause = detail and detail.error and detail.error:match('^[^\t]*') or ''
    local rest = string.format('%.0f', now) .. ' ' .. state.reason .. '\t' .. cause
    keep_results({ id }, { event ~= 'redriven' and word .. ' ' .. rest }, { birth })
  end
  local kept = setting('outcomes')
  if not kept then
    return
  end
  detail = detail or {}
  local age = math.max(now - math.floor(head.birth / 4096), 0)
  local consumer, failure = detail.consumer or '""', detail.error and read_json(detail.error:match('^[^\t]*')) or {}
  names[consumer] = names[consumer] or read_json('[' .. consumer .. ']')[1] or ''
  redis.pcall(
    'XADD', outcomes, 'MAXLEN', '~', kept, '*', 'id', id, 'event', event, 'attempt', attempts(state),
    'age', string.format('%.0f', age), 'delay', string.format('%.0f', delay), 'consumer', names[consumer],
    'error', failure.type or '', 'fingerprint', failure.fingerprint or '',
    'reason', state.reason, 'cause', detail.cause or '', 'birth', birth
  )
end
