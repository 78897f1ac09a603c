-- Settles messages that their holder does not take, since it does not have their task, or their arguments or body do not
-- fit. They rest, untried and uncharged, for another version of the program: 1 s at first, twice as long each time, 60 s at
-- most. They rest while a live worker may take them, otherwise until ten minutes after this began; then they die. The state
-- has the time of that end, how often they were passed on, and the marks of the holders that did not take them:
--   passed_on=UNTIL/TIMES/MARKS
-- Returns the outcome of each, or a verdict.
-- drains
local consumer, mark, takers = ARGV[1], ARGV[2], ARGV[3] -- mark: of what the holder takes for this task; empty: nothing
local error = ARGV[4] -- takers: the marks of live workers for it, separated by blanks
-- items from ARGV[5]: held (lib/settled)
-- needs: settle_messages, count_untried, attempts, now, remember, expiry_of, bury, due_in, put, outcome, wake_one; keys: counters
local FIRST, LONGEST, PATIENCE = 1000, 60000, 600000 -- milliseconds
local MARKS = 144 -- bytes: 16 marks, with a dot before each

return settle_messages(5, function(id, state, head)
  if state.part ~= 'live' then -- a dead letter is not offered to another version
    put(id, state, head)
    return 'kept'
  end
  local ends, times, marks = state.more:match(' passed_on=(%d+)/(%d+)/(%S*)')
  ends, times, marks = tonumber(ends) or now + PATIENCE, tonumber(times) or 0, marks or ''
  ends = math.min(ends, now + PATIENCE) -- the clock may have stepped back
  if mark ~= '' and not marks:find(mark, 1, true) then
    marks = (marks .. '.' .. mark):sub(-MARKS)
  end
  local taken = false -- whether a live worker may take it: one that has not passed it on
  for taker in takers:gmatch('%S+') do
    taken = taken or not marks:find(taker, 1, true)
  end
  local rest = math.min(FIRST * 2 ^ math.min(times, 10), LONGEST)
  if not taken and ends > now then
    rest = math.min(rest, ends - now)
  end
  local over = not taken and ends <= now
  count_untried(state)
  state.released = state.released + 1
  redis.call('HINCRBY', counters, 'released', 1)
  redis.call('HINCRBY', counters, 'passed_on', 1)
  remember(id, over and 'poisoned' or 'passed_on', attempts(state), over and 0 or rest, consumer, error)
  local failure = { cause = 'passed_on', consumer = consumer, error = error }
  local expiry = expiry_of(head, state)
  if over then
    return bury(id, state, head, 'dead', 'unprocessable', failure)
  elseif expiry and now + rest >= expiry then
    return bury(id, state, head, 'expired', 'expired', failure)
  end
  local word = string.format(' passed_on=%.0f/%.0f/%s', ends, times + 1, marks)
  state.more = state.more:gsub(' passed_on=%S*', '') .. word
  state.due = due_in(rest, head)
  put(id, state, head, true)
  outcome('passed_on', id, head, state, rest, failure)
  return 'passed_on ' .. rest
end, wake_one)
