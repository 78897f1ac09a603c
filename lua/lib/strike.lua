-- Counts failures against the dependencies of messages. While its breaker is open, or it is paused, a failure is not the
-- message's fault: it is neither charged nor delayed. One message can never open it.
--   failure: from lib/judge; failure.opened: the dependency whose breaker it opens
-- needs: now, breaker, read_lane, is_closed, read_signs, count_failure, is_down, text_in, spare
-- needs: read_struck, with_struck; keys: messages
-- gives: strike, struck
local struck = {} -- by lane: what this call counts

-- Counts it as a sign; returns how much of its charges may be refunded.
local function count_sign(id, tally, failure, last, charged)
  tally.signs = tally.signs or read_signs(tally.name)
  tally.ids[#tally.ids + 1] = id
  tally.since = math.min(tally.signs.run.began, now - breaker.within)
  count_failure(tally.signs, id, not last)
  if not tally.opens and is_down(tally.signs) then
    tally.opens, failure.opened = id, text_in(redis.call('HGET', messages, id) or '', 'dependency')
  end
  if tally.opens then
    failure.charge, failure.delay, failure.excused = false, 0, true
  end
  return (last and last >= tally.since and charged or 0) + (failure.charge and 1 or 0)
end

local function strike(id, state, head, failure)
  local number = head.needs
  local lane = read_lane(number)
  local last, charged, refunds = read_struck(state.more)
  local tally = struck[number]
    or { ids = {}, failed = 0, name = string.format('%.0f', number), error = failure.error:match('^[^\t]*') }
  struck[number], tally.failed = tally, tally.failed + 1
  if is_closed(number) then
    spare(id, number, failure)
  elseif breaker.distinct < math.huge and not (lane and lane.trusts and lane.trusts > now) then
    charged = count_sign(id, tally, failure, last, charged)
  else
    return
  end
  state.more = with_struck(state.more, now, charged, refunds)
end
