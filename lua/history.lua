-- The history of a message: a line for each failure, redrive and other event.
local KEEP = 15 -- lines at each end
local FAILURES = { nacked = true, lapsed = true, passed_on = true, poisoned = true, dead_lettered = true }

-- Adds a line to the history of a message; tabs are between its cells, which are numbers, words or JSON. The first 15 lines
-- and the last 15 stay; only the newest keeps its traceback (I6, I13). Of the failures of a dead letter, `kept`, and of
-- repeated `passed_on` events, only the newest stays, so that they do not displace what it died of.
--   event  at  delivery  delay  consumer  error  traceback
function History.remember(q, id, event, delivery, delay, consumer, failure, at)
  local line = event .. '\t' .. Values.digits(at or q.now) .. string.format('\t%d\t', delivery) .. Values.digits(delay)
  line = line .. '\t' .. consumer .. '\t' .. failure
  local text = redis.call('HGET', q.history, id)
  if text and text ~= '' then
    -- A full history is some 20 kB: patterns would read each byte, finds of plain text do not.
    local ends, tab = { 0 }, nil -- the ends of its lines but the last; the last tab of that
    local found = text:find('\n')
    while found do
      ends[#ends + 1], found = found, text:find('\n', found + 1)
    end
    local start = line:match('^expired\t%d+\t')
    for n = 1, start and #ends or 0 do
      if text:sub(ends[n] + 1, ends[n] + #start) == start then
        return -- already written, when it failed as an expired one
      end
    end
    found = text:find('\t', ends[#ends] + 1)
    while found do
      tab, found = found, text:find('\t', found + 1)
    end
    local kept, from, last = '', 1, ends[#ends] + 1
    if #ends >= 2 * KEEP then
      kept, from = text:sub(1, ends[KEEP + 1]), ends[KEEP + 2] + 1
    end
    local before = text:sub(from, tab) .. '\n'
    if (event == 'kept' or event == 'passed_on') and text:sub(last, last + #event) == event .. '\t' then
      kept, before = '', text:sub(1, last - 1)
    end
    line = kept .. before .. line
  end
  redis.call('HSET', q.history, id, line)
end

-- Writes into the history of a message that it expired, before it leaves that state, or as it fails in it. Only once.
function History.remember_expiry(q, id, state)
  if state.reason == 'expired' then
    History.remember(q, id, 'expired', State.attempts(state), 0, '', '', state.due)
  end
end

-- The line of the newest failure in a history (History.remember); empty: no failure.
function History.last_failure(story)
  local first, from, to = 1, 1, 0
  while first <= #story do
    local last = (story:find('\n', first, true) or #story + 1) - 1
    if FAILURES[story:match('^[%a_]*', first)] then
      from, to = first, last
    end
    first = last + 2
  end
  return story:sub(from, to)
end
