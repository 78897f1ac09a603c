-- Takes a dead letter out of its group before it leaves `dead`, so that each row of `groups` belongs to a dead letter.
-- Remembers when the group was last cleared, for the thousand groups that were cleared last: a group that is there again
-- has regressed.
-- needs: row_in_groups, now; keys: groups, cleared
-- gives: ungroup
local REMEMBERED, FOR = 1000, 2592000000 -- groups; milliseconds: 30 days
local noted = {}

local function ungroup(state, member)
  local row = row_in_groups(state, member)
  redis.call('ZREM', groups, row)
  local group = row:sub(1, 12)
  if not noted[group] then
    noted[group] = true
    redis.call('ZADD', cleared, now, group)
    local over = redis.call('ZRANGE', cleared, 0, -REMEMBERED - 1)
    if #over > 0 then
      redis.call('ZREM', cleared, unpack(over))
    end
    redis.call('PEXPIRE', cleared, FOR)
  end
end
