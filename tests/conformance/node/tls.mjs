// Both sockets of `openai` reach a server by TLS, and tell why where they do not.

import OpenAI from 'openai';
import { OpenAIRealtimeWebSocket } from 'openai/realtime/websocket';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';

import { job, report } from './common.mjs';

const client = new OpenAI({ baseURL: `${job.url}/v1`, apiKey: 'none' });

for (const Socket of [OpenAIRealtimeWS, OpenAIRealtimeWebSocket]) {
  await report.feature(Socket.name, async () => {
    const socket = new Socket({ model: job.model }, client);
    try {
      await new Promise((resolve, reject) => {
        socket.on('session.created', resolve);
        socket.on('error', reject);
      });
    } finally {
      socket.close();
    }
  });
}
report.print();
