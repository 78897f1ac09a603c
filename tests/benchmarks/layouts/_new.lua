-- Calls visit(id, record, priority, birth) for each item (id, payload) from ARGV[3] that is not known.
local ids = {}
for i = 3, #ARGV, 2 do
  ids[#ids + 1] = ARGV[i]
end

local function each_new(known, visit)
  local last = tonumber(redis.call('HGET', counters, 'birth')) or 0
  local birth = math.max(now * 4096, last + 1)
  local first, prefix, prefix_of = birth, '', nil
  for n, id in ipairs(ids) do
    if not known[n] then
      local payload = ARGV[2 * n + 2]
      local priority, low = payload:byte(1), birth % 65536
      if prefix_of ~= birth - low then
        prefix_of, prefix = birth - low, pack_number((birth - low) / 65536, 5)
      end
      if ttl > 0 then
        payload = string.char(priority + EXPIRES) .. pack_number(now + ttl, 6) .. payload:sub(2)
      end
      visit(id, prefix .. string.char(math.floor(low / 256), low % 256) .. payload, priority, birth)
      birth = birth + 1
    end
  end
  if birth > first then
    redis.call('HSET', counters, 'birth', string.format('%.0f', birth - 1))
    redis.call('HINCRBY', counters, 'sent', birth - first)
  end
end
