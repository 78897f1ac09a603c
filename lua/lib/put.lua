-- The only way a message gets a row in an index. The new row is written first, then the state, which is the moment it
-- counts; the caller removes the old row last. A script that is cut off leaves at worst a row that the state contradicts,
-- and whoever meets that row removes it (I9).
--   waits: for state.due. The due time alone would not tell: after the clock stepped back, a message that was ready may
--   be due in the future.
--   rest: of a dead or expired message, when its rest ends (lib/past_resting); nil: it does not rest
--   arrive: writes the history and the record of a dead letter that the queue does not have yet; nil: it has it
-- needs: member_of, score_of, expiry_of, format_state
-- needs: keys: states, ready, scheduled, dead, expired, expiring, groups
-- gives: put
local in_group

local function put(id, state, head, waits, rest, arrive)
  local member = member_of(id, head, state.due)
  if state.part == 'dead' then
    redis.call('ZADD', dead, state.due, member)
  elseif state.part == 'expired' then
    redis.call('ZADD', expired, state.due, member)
  elseif waits then
    redis.call('ZADD', scheduled, state.due, member)
  else
    redis.call('ZADD', ready, score_of(head.priority, state.due), member)
  end
  local expires = state.part == 'live' and expiry_of(head, state)
  if expires then
    redis.call('ZADD', expiring, expires, id)
  end
  state.mark = '-'
  local died_again = state.part ~= 'live' and state.more:match(' redrive=([^/]+)/') -- see lib/bring_back
  if died_again then
    state.more = state.more:gsub(' redrive=%S*', '')
  end
  if rest or state.more:find(' rest=') then
    state.more = state.more:gsub(' rest=%d+', '') .. (rest and ' rest=' .. rest or '')
  end
  if state.part == 'dead' and not state.more:find(' group=', 1, true) then -- an earlier version buried it
    -- needs: group_of
    state.more = state.more .. ' group=' .. group_of(id, state)
  end
  redis.call('HSET', states, id, format_state(state))
  if arrive then
    arrive()
  end
  if state.part == 'dead' then -- the last: so each row of `groups` is one of a dead letter
    in_group = in_group or (function()
      -- needs: row_in_groups
      return row_in_groups
    end)()
    redis.call('ZADD', groups, 0, in_group(state, member))
  end
  if died_again then
    -- needs: count_redriven
    count_redriven(died_again, 'died')
  end
end
