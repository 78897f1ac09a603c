-- Jobs: many tasks stage messages in lists, and one call commits all of them, or none.
local AT_ONCE = 2000 -- scores and members in one ZADD

-- The commit point of a job: from here on all messages of its lists are part of the queue, or none is. They are moved there
-- afterwards (`move_staged`). `job` remembers which batch was committed last (0 for a job that is not a stream) and by
-- which call, so that the call can be repeated (I12). Returns DONE; or nothing was committed: DONE_BEFORE: another call
-- committed this batch or a later one; INCOMPLETE: one of the lists; DELETED.
function Verbs.commit_job(q, ARGV, queues)
  local batch, call = tonumber(ARGV[1]), ARGV[2]
  local grace, remembered = tonumber(ARGV[3]), ARGV[4] -- milliseconds; after grace maintenance moves the messages
  local opening = ARGV[5]
  -- items from ARGV[6]: member, length (of the list)
  local last, by = (redis.call('GET', q.job) or ''):match('^(%d+) (%S+)$')
  if by ~= call then
    if last and tonumber(last) >= batch then
      return Reply.DONE_BEFORE
    end
    if not Queue.is_open(q, opening) then
      return Reply.DELETED
    end
    local entries = {}
    for n, there in ipairs(queues) do -- lists
      if redis.call('LLEN', there.staged) ~= tonumber(ARGV[5 + 2 * n]) then
        return Reply.INCOMPLETE
      end
      entries[2 * n - 1], entries[2 * n] = q.now + grace, ARGV[4 + 2 * n]
    end
    for at = 1, #entries, AT_ONCE do
      local stop = math.min(at + AT_ONCE - 1, #entries)
      redis.call('ZADD', q.committed, unpack(entries, at, stop)) -- the commit takes effect
    end
    redis.call('SET', q.job, Values.digits(batch) .. ' ' .. call, 'PX', remembered)
  end
  for _, there in ipairs(queues) do
    redis.call('PERSIST', there.staged)
  end
  return Reply.DONE
end

-- The first items of a list: id, payload, …; at most so many, and about Bounds.BYTES.
local function first_items(q, most, longest)
  local items, bytes, wanted = {}, 0, 0
  while #items == wanted and wanted < most and bytes <= Bounds.BYTES do -- Redis does not report the sizes of a list's items
    wanted = math.min(wanted + 2 * math.max(1, math.floor((Bounds.BYTES - bytes) / longest)), most)
    local found, before = redis.call('LRANGE', q.staged, #items, wanted - 1), #items
    for n, item in ipairs(found) do
      items[before + n], bytes = item, bytes + #item
    end
  end
  return items
end

-- Moves messages of a committed job from the front of one of its lists into the queue. Returns how many, and how many of
-- them the queue already had; 0 if none is left, or if it is too early for a caller that did not commit them.
function Verbs.move_staged(q, ARGV)
  local member, limit, delay, ttl = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]) -- milliseconds
  local early = ARGV[5] -- 1: from the caller that committed them
  local longest = tonumber(ARGV[6]) -- the largest payload in bytes, as the caller estimates it
  local due = tonumber(redis.call('ZSCORE', q.committed, member) or nil)
  if not due or (due > q.now and early ~= '1') then
    return { 0, 0 }
  end
  local items, known = first_items(q, 2 * limit, longest), 0
  if #items > 0 then
    known = (#Send.add(q, items, 1, #items, delay, ttl, '') - 1) / 2 -- after the birth: a number and a place for each
    -- if cut off before this, a repetition adds them again, which changes nothing (I12)
    redis.call('LTRIM', q.staged, #items, -1)
  end
  if redis.call('EXISTS', q.staged) == 0 then
    redis.call('ZREM', q.committed, member)
  end
  return { #items / 2, known }
end

-- Deletes a list of a job that was not committed. Returns 1 if the list existed.
-- drains
function Verbs.drop_staged(q, ARGV)
  local member = ARGV[1]
  if redis.call('ZSCORE', q.committed, member) then
    return 0 -- it was committed, whatever the caller believes
  end
  return redis.call('DEL', q.staged)
end
