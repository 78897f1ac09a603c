-- Compares `groups` with `dead`, a part per call, while their sizes differ: an earlier version writes no groups, and a
-- script that was cut off leaves a dead letter without its row. Adds the missing rows, then removes those without a dead
-- letter. Returns how many rows it checked; 0: nothing is left to do, or only a later version can do it.
-- drains
local limit = tonumber(ARGV[1])
local PAUSE = 600000 -- milliseconds until it begins again, if the sizes still differ
-- needs: keys: states, dead, groups, grouped
local function differ()
  return redis.call('ZCARD', dead) ~= redis.call('ZCARD', groups)
end
local noted = redis.call('GET', grouped) or 'dead -inf '
if noted == 'done' or not differ() then
  return 0
end
-- needs: rows_of_range, id_of, head_of, parse_state, format_state, left_over, group_of, row_in_groups
local place, score, member = noted:match('^(%a+) (%S+) (.*)$')
local index = place == 'dead' and dead or groups
local range = { limit = limit, score = score, member = member, last_score = '+inf', last_member = '\255' }
local rows, next_score, next_member = rows_of_range(index, range)
for _, found in ipairs(rows) do
  local row = place == 'dead' and found or found:sub(19) -- the row in `dead`
  local id = id_of(row)
  local text = redis.call('HGET', states, id)
  local head, later = head_of(id, text)
  local there = redis.call('ZSCORE', dead, row)
  if later then -- only a later version can tell its row
    if not there then
      redis.call('ZREM', groups, found)
    end
  else
    local state = head and parse_state(text, head.birth)
    there = there and state and not left_over(dead, row, id, state, head)
    if there and state.part == 'dead' and not state.more:find(' group=', 1, true) then
      state.more = state.more .. ' group=' .. group_of(id, state)
      redis.call('HSET', states, id, format_state(state))
    end
    local expected = there and row_in_groups(state, row)
    if not there then
      redis.call('ZREM', index, found)
    elseif place == 'dead' then
      redis.call('ZADD', groups, 0, expected)
    elseif found ~= expected then
      redis.call('ZREM', groups, found)
    end
  end
end
if next_score ~= '' then
  noted = place .. ' ' .. next_score .. ' ' .. next_member
else
  noted = place == 'dead' and 'groups -inf ' or 'done'
end
if differ() then
  redis.call('SET', grouped, noted, 'PX', PAUSE)
else
  redis.call('DEL', grouped)
end
return math.max(1, #rows)
