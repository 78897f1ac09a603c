-- The groups of dead letters: those that died of failures with the same fingerprint.
--
-- Those that died of lapses alone, or expired into the dead letters, are the group `lapsed` or `expired`; those that
-- were nacked without an error are the group without a name. The index `groups` is a sorted set of equal scores, so
-- ordered by bytes, with a row for each dead letter: group, time of death, row in `dead`.
--
-- - No counters, which could drift: a ZLEXCOUNT counts a group, its first and last rows say when it began and when it
--   last died, and the list jumps from one group to the next.
-- - The group is a field of the state, so the row follows without a reading of the history. A death takes it from the
--   newest failure in the history.
-- - The row is written last and removed first, so a call that is cut off leaves a dead letter without a row, never a
--   row without a letter. Then the sizes of `groups` and `dead` differ: clients read the letters instead, and
--   maintenance (`regroup`) gives each letter its field and its row.
-- - A letter that a consumer of the dead-letter queue holds is in no group, as it is in no index. Expired messages are
--   not indexed: their groups are few, and are read.
local MOST_GROUPS, REMEMBERED = 1000, 2592000000 -- cleared, and muted; milliseconds: 30 days
local PAUSE = 600000 -- milliseconds until `regroup` begins again, if the sizes still differ
local NEWEST = 10 -- dead letters that the list of groups has of each
local HOUR, DAY = 3600000, 86400000 -- milliseconds
local LINE = '^[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*\t[^\t]*' -- of a history, without the traceback

-- The row of a dead letter in `groups`: its group, its time of death, and its row in `dead`. So a group is a range that
-- begins with its oldest dead letter, and so are groups with the same first digits.
--   group: twelve digits, lapsed, expired, or empty: the failure has no fingerprint
function Groups.row(group, died, member)
  return string.format('%-12s', group) .. Values.packed(died, 6) .. member
end

-- The row in `groups` of a dead letter with this state, whose row in `dead` is `member`.
function Groups.row_of(state, member)
  return Groups.row(state.more:match(' group=(%S*)') or '', state.due, member)
end

-- The group of a dead letter: the fingerprint of the failure that it died of, the newest one in its history.
function Groups.of(q, id, state)
  local expired = state.reason == 'expired'
  local failure = History.last_failure(redis.call('HGET', q.history, id) or '')
  if expired and tonumber(failure:match('^%S*\t(%d+)') or nil) ~= state.due then
    failure = '' -- it expired without a failure
  end
  local group = failure:match('"fingerprint":"(%w*)"') or '' -- in a text the quotes would be escaped
  return group == '' and expired and 'expired' or group:sub(1, 12)
end

-- Takes a dead letter out of its group before it leaves `dead`. Remembers when the group was last cleared, for the thousand
-- groups that were cleared last: one that is there again has regressed.
function Groups.ungroup(q, state, member)
  local row = Groups.row_of(state, member)
  local group = row:sub(1, 12)
  redis.call('ZREM', q.groups, row)
  if q.cleared_now[group] then -- once for each group: these are a sixth of what a purge takes
    return
  end
  q.cleared_now[group] = true
  redis.call('ZADD', q.cleared, q.now, group)
  local over = redis.call('ZRANGE', q.cleared, 0, -MOST_GROUPS - 1)
  if #over > 0 then
    redis.call('ZREM', q.cleared, unpack(over))
  end
  redis.call('PEXPIRE', q.cleared, REMEMBERED)
end

-- Whether a row of `groups` contradicts the state of its message, and was left behind.
function Groups.left_group(row, text)
  local part, mark, died = text:match('^(%a+)/?%a* ([+-])%S* (%d+)')
  local expected = died and Groups.row(text:match(' group=(%S*)') or '', died, '')
  return part ~= nil and (part ~= 'dead' or mark == '+' or row:sub(1, 18) ~= expected)
end

-- Whether `groups` has more or fewer rows than `dead`.
local function differ(q)
  return redis.call('ZCARD', q.dead) ~= redis.call('ZCARD', q.groups)
end

-- Compares a row of `dead` or `groups`, the index, with the other one.
local function compare(q, index, found)
  local row = index == q.dead and found or found:sub(19) -- the row in `dead`
  local id = Order.id_of(row)
  local state, head, later = State.read(q, id)
  local there = redis.call('ZSCORE', q.dead, row)
  if later then -- only a later version can tell its row
    if not there then
      redis.call('ZREM', q.groups, found)
    end
    return
  end
  there = there and state and not Places.left_over(q, q.dead, row, id, state, head)
  if there and state.part == 'dead' and not state.more:find(' group=', 1, true) then
    state.more = state.more .. ' group=' .. Groups.of(q, id, state)
    redis.call('HSET', q.states, id, State.format(state))
  end
  local expected = there and Groups.row_of(state, row)
  if not there then
    redis.call('ZREM', index, found)
  elseif index == q.dead then
    redis.call('ZADD', q.groups, 0, expected)
  elseif found ~= expected then
    redis.call('ZREM', q.groups, found)
  end
end

-- Compares `groups` with `dead`, some rows per call, while their sizes differ. Adds the missing rows, then removes those
-- without a dead letter. Returns how many it checked; 0: nothing is left to do, or only a later version can do it.
-- drains
function Verbs.regroup(q, ARGV)
  local limit = tonumber(ARGV[1])
  local noted = redis.call('GET', q.grouped) or 'dead -inf '
  if noted == 'done' or not differ(q) then
    return 0
  end
  local of, score, member = noted:match('^(%a+) (%S+) (.*)$')
  local index = of == 'dead' and q.dead or q.groups
  local rows, next_score, next_member = Order.rows_after(index, score, member, limit)
  for _, row in ipairs(rows) do
    compare(q, index, row)
  end
  if next_score ~= '' then
    noted = of .. ' ' .. next_score .. ' ' .. next_member
  else
    noted = of == 'dead' and 'groups -inf ' or 'done'
  end
  if differ(q) then
    redis.call('SET', q.grouped, noted, 'PX', PAUSE)
  else
    redis.call('DEL', q.grouped)
  end
  return math.max(1, #rows)
end

-- The newest rows of a group.
local function newest_rows(q, name, count)
  return redis.call('ZRANGE', q.groups, '(' .. name .. '\255', '[' .. name, 'BYLEX', 'REV', 'LIMIT', 0, count)
end

-- Dead letters, by their rows; and how many bytes were read.
local function letters_of(q, rows)
  local letters, size, bytes = {}, 0, 0
  for _, row in ipairs(rows) do
    local id = Order.id_of(row:sub(19))
    local story = redis.call('HGET', q.history, id) or ''
    letters[size + 1], letters[size + 2] = id, redis.call('HGET', q.states, id) or ''
    letters[size + 3] = History.last_failure(story):match(LINE) or ''
    size, bytes = size + 3, bytes + #story
  end
  return letters, bytes
end

-- What the list has of the group that begins with this row; and how many bytes were read.
local function described(q, row)
  local name = row:sub(1, 12)
  local stop = '(' .. name .. '\255'
  local hour, day = '[' .. name .. Values.packed(q.now - HOUR, 6), '[' .. name .. Values.packed(q.now - DAY, 6)
  local newest = newest_rows(q, name, NEWEST)
  local letters, bytes = letters_of(q, newest)
  return {
    name, redis.call('ZLEXCOUNT', q.groups, '[' .. name, stop), row:sub(13, 18), newest[1]:sub(13, 18),
    redis.call('ZLEXCOUNT', q.groups, hour, stop), redis.call('ZLEXCOUNT', q.groups, day, stop),
    redis.call('ZSCORE', q.cleared, name) or '', letters, redis.call('HGET', q.muted, name) or '',
  }, bytes
end

-- Lists groups of dead letters, in the order of their fingerprints. Returns now; 1 if every dead letter is in a group
-- (otherwise `regroup` must run first); the group after which the list continues (empty: it is complete); then for each
-- group its name, its number of dead letters, the first and the last time of death (6 bytes each), how many died within the
-- last hour and the last day, when it was last cleared (empty: unknown), id, state and failure line of each of its newest
-- dead letters, and whether it is muted (`mute`).
-- reads
function Verbs.groups(q, ARGV)
  local after, prefix, limit = ARGV[1], ARGV[2], tonumber(ARGV[3]) -- prefix: the first digits of the groups; empty: all
  local reply, spent = { q.now, differ(q) and 0 or 1, '' }, 0
  local low, high = after == '' and '[' .. prefix or '(' .. after .. '\255', '(' .. prefix .. '\255'
  while true do
    local row = redis.call('ZRANGE', q.groups, low, high, 'BYLEX', 'LIMIT', 0, 1)[1]
    if not row then
      return reply
    elseif #reply - 3 == limit or spent > Bounds.BYTES then
      reply[3] = reply[#reply][1]
      return reply
    end
    local group, bytes = described(q, row)
    reply[#reply + 1], spent = group, spent + bytes
    low = '(' .. group[1] .. '\255'
  end
end

-- Mutes a group of dead letters, so that it is not reported as a problem, or unmutes it. Returns DONE; UNCHANGED, also if
-- the group does not exist; or FULL.
function Verbs.mute(q, ARGV)
  local group, upto, act = ARGV[1], ARGV[2], ARGV[3] -- group: its name, 12 characters; act: as in Audit.note_act
  -- upto: milliseconds; 0: until another message of the group dies; empty: unmute it
  local known = redis.call('HGET', q.muted, group)
  if upto == '' then
    if redis.call('HDEL', q.muted, group) == 0 then
      return Reply.UNCHANGED
    end
    redis.call('HINCRBY', q.counters, 'mutes', 1)
    Audit.note_once(q, act)
    return Reply.DONE
  end
  local last = newest_rows(q, group, 1)[1]
  local at, before = (known or ''):match('^(%d+) (%d+)$')
  local died = last and at and last:sub(13, 18) > Values.packed(tonumber(at), 6)
  if not last or before == upto and not (upto == '0' and died) then
    return Reply.UNCHANGED
  elseif not known and redis.call('HLEN', q.muted) >= MOST_GROUPS then
    return Reply.FULL
  end
  redis.call('HSET', q.muted, group, string.format('%.0f %s', q.now, upto))
  redis.call('PEXPIRE', q.muted, REMEMBERED)
  redis.call('HINCRBY', q.counters, 'mutes', 1) -- a client that remembers the groups reads them again
  Audit.note_once(q, act)
  return Reply.DONE
end
