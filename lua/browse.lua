-- Reads that change nothing: messages by their ids, a range of an index, and the counts of a queue.
local NEVER = 2 ^ 53 -- no time is later

-- The heads of records; those of long ones are in the states.
local function read_heads(q, ids, texts, records)
  local short, positions = {}, {}
  for n, id in ipairs(ids) do
    records[n] = Record.bytes(texts[n])
    if records[n] and redis.call('HEXISTS', q.messages, id) == 0 then
      records[n] = false
    elseif not records[n] then
      short[#short + 1], positions[#positions + 1] = id, n
    end
  end
  for n, found in ipairs(#short > 0 and redis.call('HMGET', q.messages, unpack(short)) or {}) do
    records[positions[n]] = found and found:sub(1, 14)
  end
end

-- Reads the records and the histories of messages as requested, false where one is missing, up to about half a megabyte.
-- Returns how many messages it read, their records and their histories.
local function read_contents(q, ids, texts, record, story)
  local records, stories = {}, {}
  local kept, spent = #ids, 0
  if record == 'head' then
    read_heads(q, ids, texts, records)
  elseif record == 'whole' then
    kept = 0
    while kept < #ids and spent <= Bounds.BYTES do
      local found, last = Record.read_records(q, ids, texts, kept + 1, Bounds.BYTES - spent)
      for n, one in ipairs(found) do
        records[kept + n], spent = one, spent + #(one or '')
      end
      kept = last
    end
  end
  if story ~= 'yes' then
    return kept, records, stories
  end
  spent = 0
  for n = 1, kept do
    stories[n] = texts[n] and redis.call('HGET', q.history, ids[n])
    spent = spent + #(stories[n] or '')
    if spent > Bounds.BYTES then
      for over = n + 1, kept do
        records[over] = nil
      end
      return n, records, stories
    end
  end
  return kept, records, stories
end

-- Whether a message is in this place: ready, scheduled, leased, dead or expired; empty: any.
local function is_in(q, place, id, text)
  local head, later = Record.head_of(q, id, text)
  if later then
    return place == '' or place == 'leased' and text:find(' %+%S+ ') ~= nil
  elseif not head or place == '' then
    return head
  end
  local state = State.parse(text, head.birth)
  if place == 'leased' then
    return state.mark == '+'
  end
  return state.mark == '-' and redis.call('ZSCORE', Places.index(q, place), Order.member_of(id, head, state.due))
end

-- Reads messages by their ids, if they are in the place. Returns lists of the ids, the records, the states, the histories
-- and the deadlines of the leases (empty: not leased); what is not requested is an empty list. Then the number of ids that
-- it read: it stops after about half a megabyte.
-- reads
function Verbs.browse(q, ARGV)
  local place = ARGV[1] -- ready, scheduled, leased, dead, expired; empty: any
  local record, state, story = ARGV[2], ARGV[3], ARGV[4] -- what to return: whole, head or no; yes or no; yes or no
  -- items from ARGV[5]: id
  local ids, texts, deadlines, looked = {}, {}, {}, {} -- looked: how many ids were read with each
  for i = 5, #ARGV do
    local id, n = ARGV[i], #ids + 1
    local text = redis.call('HGET', q.states, id) or ''
    if is_in(q, place, id, text) then
      local token = text:match(' %+(%S+) ')
      deadlines[n] = token and redis.call('ZSCORE', q.leases, token) or ''
      ids[n], texts[n], looked[n] = id, text, i - 4
    end
  end
  local kept, records, stories = read_contents(q, ids, texts, record, story)
  local all = kept < #ids and looked[kept] or #ARGV - 4
  for n = #ids, kept + 1, -1 do
    ids[n], texts[n], deadlines[n] = nil, nil, nil
  end
  return { ids, record == 'no' and {} or records, state == 'yes' and texts or {}, stories, deadlines, all }
end

-- Whether a row was left behind by a call that was cut off. Only rows that their states contradict are checked.
local function is_elsewhere(q, place, index, row, id, text)
  local part = (place == 'dead' or place == 'expired') and place or 'live'
  local actual, mark = text:match('^(%a+)/?%a* ([+-])')
  if place == 'groups' then
    return Groups.left_group(row, text)
  elseif not actual or actual == part and mark == '-' then
    return false
  end
  local head = Record.head_of(q, id, text) -- nil: of a later form, whose row may be right
  return head and Places.left_over(q, index, row, id, State.parse(text, head.birth), head)
end

-- The first and the last row of a page of the range, by their ranks; then whether more follow in its direction, by how many
-- rows of it were read.
local function page_of(index, range, order)
  local first = Order.rows_up_to(index, range.score, range.member)
  local stop = Order.rows_up_to(index, range.last_score, range.last_member)
  if order == 'newest' then
    return first, stop, math.max(first, stop - range.limit), stop
  end
  return first, stop, first, math.min(first + range.limit, stop)
end

-- The score and the member of the row at which the next page begins or ends; both empty: there is none.
local function next_of(index, first, stop, low, rows, kept, order)
  local member = ''
  if order == 'newest' and low + #rows - kept > first then
    local at = low + #rows - kept - 1
    member = redis.call('ZRANGE', index, at, at)[1]
  elseif order == 'oldest' and low + kept < stop then
    member = rows[kept]
  end
  return member ~= '' and redis.call('ZSCORE', index, member) or '', member
end

-- Marks the ids whose messages do not exist, or are elsewhere, and cuts off those that were not read.
local function sort_out(q, place, index, ids, row_of, texts, records, kept)
  for n = #ids, 1, -1 do
    local id, text = ids[n], texts[n]
    if n > kept then
      ids[n], texts[n] = nil, nil
    elseif not records[n] and redis.call('HEXISTS', q.messages, id) == 0
      or text and is_elsewhere(q, place, index, row_of[n], id, text) then
      ids[n] = false
    end
  end
end

-- Reads a range of an index, a page per call. A row that is not moved is read exactly once, whatever is added or removed
-- between two pages: the next page begins after the score and the member of the last row (newest first: it ends at the row
-- before the first). Returns these (empty: the range is complete), then lists of ids, records, states and histories. An id
-- is nil if the message does not exist. For `leased`, the ids are the claims' tokens.
-- reads
function Verbs.scan(q, ARGV)
  local place, order = ARGV[1], ARGV[2] -- place: as in browse, or groups; order: oldest or newest first
  local record, state, story = ARGV[3], ARGV[4], ARGV[5] -- what to return: whole, head or no; yes or no; yes or no
  local limit, score, member = tonumber(ARGV[6]), ARGV[7], ARGV[8] -- the row after which the range begins
  local last_score, last_member = ARGV[9], ARGV[10] -- the last row of the range
  local index = place == 'leased' and q.leases or Places.index(q, place) or q.groups
  local range = { limit = limit, score = score, member = member, last_score = last_score, last_member = last_member }
  local first, stop, low, high = page_of(index, range, order)
  if low >= high then
    return { '', '', {}, {}, {}, {} }
  end
  local rows = redis.call('ZRANGE', index, low, high - 1)
  if place == 'leased' then
    local next_score, next_member = next_of(index, first, stop, low, rows, #rows, order)
    return { next_score, next_member, rows, {}, {}, {} }
  end
  local ids, row_of = {}, {} -- by position: a message may have two rows
  for n, row in ipairs(rows) do
    local at = order == 'newest' and #rows + 1 - n or n
    ids[at], row_of[at] = Order.id_of(place == 'groups' and row:sub(19) or row), row
  end
  local texts = redis.call('HMGET', q.states, unpack(ids))
  local kept, records, stories = read_contents(q, ids, texts, record, story)
  local next_score, next_member = next_of(index, first, stop, low, rows, kept, order)
  sort_out(q, place, index, ids, row_of, texts, records, kept)
  return { next_score, next_member, ids, record == 'no' and {} or records, state == 'yes' and texts or {}, stories }
end

-- The score of the first row; empty: there is none.
local function first_score(index)
  return redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')[2] or ''
end

-- Counts the messages of a queue. Returns now; the numbers by state; the oldest ready, the next due and the next lapse
-- (times; empty: none); if the queue is paused, when that ends, or 1 if an operator resumes it; how many messages are in no
-- index and no claim; how many wait for a seat, which count as scheduled; how many gathers wait for their children, and
-- when the oldest was opened (empty: there is none); then the counters, name by name.
-- reads
function Verbs.stats(q)
  local orphans = Reindex.count_orphans(q)
  local reply = {
    q.now, redis.call('ZCARD', q.ready), redis.call('ZCARD', q.scheduled), Places.count_outside(q) - orphans,
    redis.call('ZCARD', q.dead), redis.call('ZCARD', q.expired),
  }
  reply[7], reply[8], reply[9] = first_score(q.ready), first_score(q.scheduled), first_score(q.leases)
  local pause = redis.call('HMGET', q.settings, 'paused', 'paused_until')
  local ends = tonumber(pause[2] or nil) or NEVER
  reply[10] = pause[1] == '1' and ends > q.now and (ends < NEVER and ends or 1) or 0
  reply[11] = orphans
  reply[12] = redis.call('ZCOUNT', q.scheduled, Lanes.BLOCKED, '+inf')
  if reply[12] == reply[3] then
    reply[8] = '' -- nothing falls due
  end
  local gathers = redis.call(
    'ZRANGEBYSCORE', q.gathers, Gathers.WAITING, 2 * Gathers.WAITING - 1, 'WITHSCORES', 'LIMIT', 0, 1
  )
  reply[13] = redis.call('ZCOUNT', q.gathers, Gathers.WAITING, 2 * Gathers.WAITING - 1)
  reply[14] = gathers[2] and gathers[2] - Gathers.WAITING or ''
  for _, cell in ipairs(redis.call('HGETALL', q.counters)) do
    reply[#reply + 1] = cell
  end
  return reply
end
