-- The only way a message gets a row in an index, except where many move together, as in lib/sent and lib/promote. The new
-- row is written first, then the state, which takes effect; the caller removes the old row last (lib/leave). A script that
-- is cut off leaves at worst a row that the state contradicts, and the next script that reads the row removes it (I9).
-- Returns the new row: its index and its member.
--   waits: until state.due, which alone cannot tell, since the clock may step back; a score: in the lane where it is blocked
--   rest: when the rest of a dead or expired message ends (lib/past_resting); nil: it does not rest
--   arrive: writes a record, and a history, that the queue does not have yet; nil: it has them
-- With a rule for keys, a message with a key is ready only with a seat, otherwise blocked (lib/seated_or_blocked).
-- needs: member_of, score_of, expiry_of, format_state, setting
-- needs: keys: states, ready, scheduled, dead, expired, expiring, groups
-- gives: put
local in_group, seat_or_block, give_back

local function put(id, state, head, waits, rest, arrive)
  local member, score = member_of(id, head, state.due), type(waits) == 'number' and waits or state.due
  local index = state.part == 'dead' and dead or state.part == 'expired' and expired or scheduled
  if state.part == 'live' and not waits then
    index, score = ready, score_of(head.priority, state.due)
  end
  local in_lane = head.lane and setting('per_key')
  if in_lane then
    if not give_back then
      -- needs: seated_or_blocked, given_back
      seat_or_block, give_back = seated_or_blocked, given_back
    end
    if index == ready then
      index, score = seat_or_block(id, member, head.lane, score)
    end
  end
  redis.call('ZADD', index, score, member)
  local expires = state.part == 'live' and expiry_of(head, state)
  if expires then
    redis.call('ZADD', expiring, expires, id)
  end
  state.mark = '-'
  local died_again = state.part ~= 'live' and state.more:match(' redrive=([^/ ]+)/') -- see lib/bring_back
  if died_again then
    state.more = state.more:gsub(' redrive=%S*', '')
  end
  if rest or state.more:find(' rest=') then
    state.more = state.more:gsub(' rest=%d+', '') .. (rest and ' rest=' .. rest or '')
  end
  if state.part == 'dead' and not state.more:find(' group=', 1, true) then
    -- needs: group_of
    state.more = state.more .. ' group=' .. group_of(id, state)
  end
  redis.call('HSET', states, id, format_state(state))
  if arrive then
    arrive()
  end
  if state.part == 'dead' then -- last, so that each row of `groups` belongs to a dead letter
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
  if head.needs and setting('gated') then
    -- needs: end_passes
    end_passes({ id })
  end
  if in_lane then
    give_back(id, state, waits or index == scheduled)
  end
  return index, member
end
