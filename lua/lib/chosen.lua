-- The messages that an operation on a waiting part of the queue is about: the ids given from ARGV[first] on, or
-- the first `limit` of the index whose score is no higher than `highest`. `visit` gets those that do wait there.
-- @include lib/left_over
local function each_chosen(index, first, limit, highest, visit)
  local ids, rows, seen = {}, {}, {}
  if #ARGV >= first then
    for i = first, #ARGV do
      ids[#ids + 1] = ARGV[i]
    end
  else
    rows = redis.call('ZRANGEBYSCORE', index, '-inf', highest, 'LIMIT', 0, limit)
    for n, row in ipairs(rows) do
      ids[n] = id_of(row)
    end
  end
  for n, id in ipairs(ids) do
    local record, text = redis.call('HGET', messages, id), redis.call('HGET', states, id)
    local head = record and read_record(record)
    local state = record and parse_state(text, head.birth)
    local member = rows[n] or state and member_of(id, head, state.due)
    local waits = state and not left_over(index, member, id, state, head)
    if waits and not seen[id] and redis.call('ZSCORE', index, member) then
      seen[id] = true
      visit(id, state, head, member)
    elseif rows[n] then -- left behind by a script that was cut off
      if not record then
        redis.call('HDEL', states, id)
        redis.call('HDEL', history, id)
      end
      redis.call('ZREM', index, member)
    end
  end
end
